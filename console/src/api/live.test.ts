import { InfiniteQueryObserver, QueryClient, QueryObserver } from '@tanstack/react-query'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'

vi.stubGlobal('window', { location: { origin: 'http://plane' } })
const { keysOf, Live } = await import('./live')
const { signedOut } = await import('./client')

/** Plane is the stream of a control plane, one for each time that it is asked for. */
class Plane {
  asked: string[] = []
  status = 200
  private stream?: ReadableStreamDefaultController<Uint8Array>

  fetch = (url: string, { signal }: { signal: AbortSignal }) => {
    this.asked.push(url)
    if (this.status !== 200) return Promise.resolve(new Response('', { status: this.status }))
    const body = new ReadableStream<Uint8Array>({ start: (c) => (this.stream = c) })
    signal.addEventListener('abort', () => {
      try {
        this.stream?.error(signal.reason)
      } catch {
        // it had ended before
      }
    })
    return Promise.resolve(new Response(body))
  }

  say(text: string) {
    this.stream?.enqueue(new TextEncoder().encode(text))
  }

  event(id: number, type: string) {
    this.say(`id: ${id}\nevent: event\ndata: ${JSON.stringify({ event_type: type })}\n\n`)
  }

  break() {
    this.stream?.error(new TypeError('gone'))
  }
}

let plane: Plane
let queries: QueryClient
let live: InstanceType<typeof Live>
const pass = (ms: number) => vi.advanceTimersByTimeAsync(ms)

/** watch shows a query that takes a while to read, and counts the readings. */
function watch(key: string, takes = 0, meta?: Record<string, unknown>) {
  const seen = { begun: 0, done: 0 }
  const observer = new QueryObserver(queries, {
    queryKey: [key],
    meta,
    queryFn: async () => {
      seen.begun++
      await new Promise((done) => setTimeout(done, takes))
      return ++seen.done
    },
  })
  return Object.assign(seen, { unmount: observer.subscribe(() => undefined) })
}

beforeEach(() => {
  vi.useFakeTimers()
  plane = new Plane()
  vi.stubGlobal('fetch', plane.fetch)
  queries = new QueryClient({ defaultOptions: { queries: { retry: false } } })
  live = new Live(queries)
})

afterEach(() => {
  live.stop()
  queries.clear()
  vi.useRealTimers()
})

describe('Live', () => {
  it('reads what an event concerns, and nothing else', async () => {
    live.start()
    await pass(10)
    const nodes = watch('nodes')
    const skus = watch('skus')
    await pass(10)
    plane.event(1, 'node.updated')
    plane.event(2, 'node.updated')
    await pass(1_100)
    expect([nodes.done, skus.done]).toEqual([2, 1])
  })

  it('goes on after it was stopped amid events, for somebody who sees none of those before', async () => {
    live.start()
    await pass(10)
    plane.event(1, 'node.updated')
    await pass(10)
    live.stop()
    expect(live.recent).toEqual([])
    live.start()
    await pass(10)
    expect(plane.asked.at(-1)).toBe('/api/v1/events')
    const nodes = watch('nodes')
    await pass(10)
    plane.event(2, 'node.updated')
    await pass(1_100)
    expect(nodes.done).toBe(2)
    expect(live.recent).toHaveLength(1)
  })

  it('never breaks off a reading, and reads once more what may have missed an event', async () => {
    live.start()
    await pass(10)
    const nodes = watch('nodes', 2_500)
    for (let i = 1; i <= 100; i++) {
      plane.event(i, 'node.updated')
      await pass(100)
    }
    expect(nodes.begun - nodes.done).toBeLessThanOrEqual(1)
    expect(nodes.done).toBeGreaterThanOrEqual(3)
    const before = nodes.begun
    await pass(10_000)
    expect(nodes.begun).toBe(before + 1)
    expect(nodes.done).toBe(nodes.begun)
  })

  it('leaves a long list in peace for a while', async () => {
    live.start()
    await pass(10)
    let reads = 0
    const observer = new InfiniteQueryObserver(queries, {
      queryKey: ['nodes', 'list'],
      initialPageParam: 0,
      getNextPageParam: (_, all) => all.length,
      queryFn: ({ pageParam }) => {
        reads++
        return pageParam
      },
    })
    observer.subscribe(() => undefined)
    await pass(10)
    for (let i = 0; i < 20; i++) await observer.fetchNextPage()
    reads = 0
    for (let i = 1; i <= 50; i++) {
      plane.event(i, 'node.updated')
      await pass(100)
    }
    await pass(1_000)
    expect(reads).toBe(21)
  })

  it('reads everything when the stream opens for the first time, and after it was lost', async () => {
    const skus = watch('skus')
    await pass(10)
    live.start()
    await pass(10)
    expect(skus.done).toBe(2)
    plane.say(': alive\n\n')
    await pass(5_000)
    const heard = Date.now() - 5_000
    plane.break()
    await pass(1)
    expect(live.connection.state).toBe('lost')
    expect(Math.abs(live.connection.since - heard)).toBeLessThan(50)
    await pass(500)
    expect(live.connection.state).toBe('live')
    expect(skus.done).toBe(3)
  })

  it('is calmly off for those who may not follow it', async () => {
    plane.status = 403
    live.start()
    await pass(60_000)
    expect(live.connection.state).toBe('off')
    expect(plane.asked).toHaveLength(1)
    plane.status = 200
    live.start()
    await pass(10)
    expect(live.connection.state).toBe('live')
  })

  it('tells when the session has ended', async () => {
    const told = vi.fn()
    signedOut.addEventListener('signed-out', told)
    plane.status = 401
    live.start()
    await pass(10)
    expect(told).toHaveBeenCalledTimes(1)
    signedOut.removeEventListener('signed-out', told)
  })

  it('leaves what patches itself alone while it is shown, and no longer', async () => {
    live.start()
    await pass(10)
    const map = watch('fleet', 0, { patched: true })
    await pass(10)
    plane.event(1, 'node.updated')
    await pass(1_100)
    expect(map.done).toBe(1)
    map.unmount()
    plane.event(2, 'node.updated')
    await pass(1_100)
    expect(queries.getQueryState(['fleet'])?.isInvalidated).toBe(true)
  })
})

describe('keysOf', () => {
  it('takes the longest prefix, and knows who may do what', () => {
    expect(keysOf('node.drift.opened')).toContain('drift')
    expect(keysOf('node_task.finished')).toEqual(['tasks'])
    for (const type of ['user.updated', 'membership.changed', 'membership.removed']) expect(keysOf(type)).toContain('me')
    expect(keysOf('site.updated')).toEqual(expect.arrayContaining(['sites', 'fleet', 'drift', 'site-probe']))
    expect(keysOf('provisioning.active')).toEqual(expect.arrayContaining(['allocations', 'balances'])) // who rents pays
    expect(keysOf('unheard.of')).toEqual([])
  })
})
