import type { Query, QueryClient } from '@tanstack/react-query'
import { useEffect, useSyncExternalStore } from 'react'
import { asRefusal, problemOf, Refusal, signedOut, type Schemas } from './client'
import { jobFamilies } from './jobs'
import { readStream, type Message } from './sse'

/** An event of the control plane, with its place in the stream. */
export type LiveEvent = { id: string; envelope: Schemas['EventwireEnvelope'] }

/** Where the stream stands; off is for those who may not read it. */
export type Connection = { state: 'connecting' | 'live' | 'lost' | 'off'; since: number; reason?: string }

// What an event says has changed: the queries whose key begins so are read anew.
const concerns: [prefix: string, keys: string[]][] = [
  ...jobFamilies.map((f): [string, string[]] => [`node.${f}.`, [`${f}s`, `${f}-batches`, 'fleet', 'nodes']]),
  ['node.drift.', ['drift', 'fleet', 'nodes']],
  ['agent.release.', ['agent-releases', 'agents', 'nodes']],
  ['agent.drift.', ['agents']],
  ['agent.', ['agent-rollouts', 'agents']],
  ['node.certificate.', ['certificates']],
  ['provisioning.', ['allocations', 'quotas', 'reservations', 'nodes', 'fleet', 'balances']],
  ['allocation', ['allocations', 'allocation-requests', 'quotas', 'reservations', 'nodes', 'fleet']],
  ['reservation.', ['reservations']],
  ['operation.', ['operations']],
  ['operation_definition.', ['operation-definitions']],
  ['operation_policy.', ['operation-policies']],
  ['webhook.', ['webhooks']],
  ['node_task.', ['tasks']],
  ['node.', ['nodes', 'fleet']],
  ['reconciliation.', ['drift', 'fleet']],
  ['site.', ['sites', 'site-probe', 'fleet', 'drift']],
  ['sku.', ['skus']],
  ['price.', ['prices', 'skus']],
  ['payments.', ['balances', 'ledger']],
  ['billing.', ['balances', 'budgets', 'ledger']],
  ['signer.', ['signers']],
  ['self_check.', ['self-checks']],
  ['terminal_session.', ['terminals']],
  ['tenant.', ['tenants']],
  ['project.', ['projects']],
  ['user.', ['users', 'members', 'me']],
  ['membership.', ['members', 'users', 'me']],
  ['service_account.', ['service-accounts', 'members']],
  ['token.', ['tokens']],
]

// The longest prefix that fits says it all: node.drift. is not also node.
export function keysOf(type: string): string[] {
  return concerns.find(([prefix]) => type.startsWith(prefix))?.[1] ?? []
}

const refreshEvery = 1_000
// A long list is read page after page: it is left in peace for a while in between.
const restPerPage = 250
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
  // Queries that were being read when something happened to them: that reading may have missed it.
  private again = new Set<string>()
  private heard = 0
  private listeners = new Set<(e: LiveEvent) => void>()
  private watchers = new Set<() => void>()
  private queries: QueryClient

  constructor(queries: QueryClient) {
    this.queries = queries
  }

  start() {
    if (this.stopped) return
    if (this.connection.state !== 'connecting') this.become({ state: 'connecting', since: Date.now() })
    void this.connect()
  }

  /** stop forgets everything: whoever starts it next may be somebody else. */
  stop() {
    clearTimeout(this.retry)
    clearTimeout(this.refresh)
    this.refresh = undefined
    this.stopped?.abort()
    this.stopped = undefined
    this.dirty.clear()
    this.again.clear()
    this.recent = []
    this.last = ''
    this.wait = 250
    this.become({ state: 'connecting', since: Date.now() })
  }

  /** off says that nothing is followed, and that this is as it should be. */
  off() {
    this.stop()
    this.become({ state: 'off', since: Date.now() })
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
        onAlive: () => (this.heard = Date.now()),
        onMessage: (m) => this.received(m),
        refused: async (r) => new Refusal(await problemOf(r)),
      })
    } catch (error) {
      if (stopped.signal.aborted) return
      const refusal = asRefusal(error)
      if (refusal.status === 403) return this.off()
      if (refusal.status === 401) signedOut.dispatchEvent(new Event('signed-out'))
      this.failed(refusal.message)
      return
    }
    this.failed('') // the server ends streams from time to time
  }

  private opened() {
    // What happened before the first opening, or while nothing was heard, was not told.
    const missed = this.connection.state !== 'live'
    this.wait = 250
    this.heard = Date.now()
    this.become({ state: 'live', since: this.heard })
    if (missed) this.believeNothing()
  }

  private failed(reason: string) {
    if (reason && this.connection.state !== 'lost') this.become({ state: 'lost', since: this.heard || Date.now(), reason })
    this.retry = setTimeout(() => void this.connect(), this.wait)
    this.wait = Math.min(this.wait * 2, retryAtMost)
  }

  private received(m: Message) {
    if (m.id) this.last = m.id
    if (m.event === 'gap') this.believeNothing()
    if (m.event !== 'event') return
    const event = { id: m.id, envelope: JSON.parse(m.data) as LiveEvent['envelope'] }
    this.recent = [event, ...this.recent.slice(0, keepRecent - 1)]
    for (const fn of this.listeners) fn(event)
    for (const key of keysOf(event.envelope.event_type)) this.dirty.add(key)
    // Bursts are read once, not event by event.
    this.soon()
    this.tell()
  }

  private soon() {
    this.refresh ??= setTimeout(() => this.readAnew(), refreshEvery)
  }

  private readAnew() {
    this.refresh = undefined
    const keys = this.dirty
    const waited = this.again
    this.dirty = new Set()
    this.again = new Set()
    // Those that patch themselves do so only while they are shown.
    const concerned = (q: Query) => waited.has(q.queryHash) || (keys.has(String(q.queryKey[0])) && !(q.meta?.patched && q.isActive()))
    this.invalidate(concerned, Date.now())
  }

  private believeNothing() {
    this.invalidate(() => true)
  }

  // A reading that is under way is never broken off: a list that takes longer to read
  // than events take to come would never be read. It is read once more when it has ended.
  private invalidate(concerned: (q: Query) => boolean, now?: number) {
    for (const query of this.queries.getQueryCache().findAll({ predicate: concerned })) {
      if (query.state.fetchStatus === 'fetching' || (now !== undefined && rests(query, now))) this.again.add(query.queryHash)
      else void this.queries.invalidateQueries({ queryKey: query.queryKey, exact: true }, { cancelRefetch: false })
    }
    if (this.again.size > 0) this.soon()
  }

  private become(c: Connection) {
    this.connection = c
    this.tell()
  }

  private tell() {
    for (const fn of this.watchers) fn()
  }
}

/** rests says that a long list was read a moment ago. */
function rests({ state }: Query, now: number): boolean {
  const pages = (state.data as { pages?: unknown[] } | undefined)?.pages?.length ?? 1
  return now - state.dataUpdatedAt < (pages - 1) * restPerPage
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
