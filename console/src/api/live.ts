import type { QueryClient } from '@tanstack/react-query'
import { useEffect, useSyncExternalStore } from 'react'
import { asRefusal, problemOf, Refusal, signedOut, type Schemas } from './client'
import { readStream, type Message } from './sse'

/** An event of the control plane, with its place in the stream. */
export type LiveEvent = { id: string; envelope: Schemas['EventwireEnvelope'] }

export type Connection = { state: 'connecting' | 'live' | 'lost'; since: number; reason?: string }

// What an event says has changed: the queries whose key begins so are read anew.
const concerns: [prefix: string, keys: string[]][] = [
  ['node.onboarding.', ['onboardings', 'onboarding-batches', 'fleet', 'nodes']],
  ['node.decommission.', ['decommissions', 'decommission-batches', 'fleet', 'nodes']],
  ['node.drift.', ['drift', 'fleet', 'nodes']],
  ['node.certificate.', ['certificates']],
  ['node_task.', ['tasks']],
  ['node.', ['nodes', 'fleet']],
  ['reconciliation.', ['drift']],
  ['site.', ['sites']],
  ['sku.', ['skus']],
  ['signer.', ['signers']],
  ['self_check.', ['self-checks']],
  ['terminal_session.', ['terminals']],
  ['tenant.', ['tenants']],
  ['project.', ['projects']],
  ['user.', ['users']],
  ['membership.', ['members']],
  ['service_account.', ['service-accounts']],
  ['token.', ['tokens']],
]

// The longest prefix that fits says it all: node.drift. is not also node.
export function keysOf(type: string): string[] {
  return concerns.find(([prefix]) => type.startsWith(prefix))?.[1] ?? []
}

const refreshEvery = 1_000
const keepRecent = 500
const retryAtMost = 10_000
// The server shows a sign of life every quarter of a minute.
const silentFor = 40_000

/**
 * Live follows the event stream of the control plane for one tab: it keeps the
 * newest events, tells listeners, and has queries read anew. It knows whether it
 * is connected, so that nothing old is shown as fresh.
 */
export class Live {
  connection: Connection = { state: 'connecting', since: Date.now() }
  recent: LiveEvent[] = []

  private stopped?: AbortController
  private last = ''
  private wait = 250
  private retry?: ReturnType<typeof setTimeout>
  private refresh?: ReturnType<typeof setTimeout>
  private dirty = new Set<string>()
  private listeners = new Set<(e: LiveEvent) => void>()
  private watchers = new Set<() => void>()
  private queries: QueryClient

  constructor(queries: QueryClient) {
    this.queries = queries
  }

  start() {
    if (!this.stopped) void this.connect()
  }

  stop() {
    clearTimeout(this.retry)
    clearTimeout(this.refresh)
    this.stopped?.abort()
    this.stopped = undefined
    this.connection = { state: 'connecting', since: Date.now() }
  }

  /** listen is told of each event as it comes. */
  listen(fn: (e: LiveEvent) => void) {
    this.listeners.add(fn)
    return () => void this.listeners.delete(fn)
  }

  /** subscribe is told when the connection or the newest events change. */
  subscribe = (fn: () => void) => {
    this.watchers.add(fn)
    return () => void this.watchers.delete(fn)
  }

  private async connect() {
    const stopped = new AbortController()
    this.stopped = stopped
    const resume = this.last ? `?last_event_id=${encodeURIComponent(this.last)}` : ''
    try {
      await readStream(`/api/v1/events${resume}`, {
        signal: stopped.signal,
        silentFor,
        onOpen: () => this.opened(),
        onMessage: (m) => this.received(m),
        refused: async (r) => new Refusal(await problemOf(r)),
      })
    } catch (error) {
      if (stopped.signal.aborted) return
      const refusal = asRefusal(error)
      if (refusal.status === 401) signedOut.dispatchEvent(new Event('signed-out'))
      this.failed(refusal.message)
      return
    }
    this.failed('') // the server ends streams from time to time
  }

  private opened() {
    const lost = this.connection.state === 'lost'
    this.wait = 250
    this.become({ state: 'live', since: Date.now() })
    if (lost) void this.queries.invalidateQueries()
  }

  private failed(reason: string) {
    if (reason && this.connection.state !== 'lost') this.become({ state: 'lost', since: Date.now(), reason })
    this.retry = setTimeout(() => void this.connect(), this.wait)
    this.wait = Math.min(this.wait * 2, retryAtMost)
  }

  private received(m: Message) {
    if (m.id) this.last = m.id
    if (m.event === 'gap') void this.queries.invalidateQueries() // something was missed: believe nothing
    if (m.event !== 'event') return
    const event = { id: m.id, envelope: JSON.parse(m.data) as LiveEvent['envelope'] }
    this.recent = [event, ...this.recent.slice(0, keepRecent - 1)]
    for (const fn of this.listeners) fn(event)
    for (const key of keysOf(event.envelope.event_type)) this.dirty.add(key)
    // Bursts are read once, not event by event.
    this.refresh ??= setTimeout(() => this.readAnew(), refreshEvery)
    this.tell()
  }

  private readAnew() {
    this.refresh = undefined
    const keys = [...this.dirty]
    this.dirty.clear()
    void this.queries.invalidateQueries({ predicate: (q) => keys.includes(String(q.queryKey[0])) && !q.meta?.patched })
  }

  private become(c: Connection) {
    this.connection = c
    this.tell()
  }

  private tell() {
    for (const fn of this.watchers) fn()
  }
}

let live: Live | undefined

/** theLive is the one connection of this tab. */
export function theLive(queries?: QueryClient): Live {
  if (!live) {
    if (!queries) throw new Error('nothing is live yet')
    live = new Live(queries)
  }
  return live
}

export function useConnection(): Connection {
  const l = theLive()
  return useSyncExternalStore(l.subscribe, () => l.connection)
}

export function useRecentEvents(): LiveEvent[] {
  const l = theLive()
  return useSyncExternalStore(l.subscribe, () => l.recent)
}

/** useEvents calls fn for each event while the component is shown. */
export function useEvents(fn: (e: LiveEvent) => void) {
  useEffect(() => theLive().listen(fn), [fn])
}
