import { describe, expect, it } from 'vitest'
import { otherThanSeen } from './breaker'

const nodes = (...ids: string[]) => ids.map((id) => ({ node_id: id, hostname: id }))
const site = (...ids: string[]) => ({ name: 'dc1', breaker: { since: '2026-03-01T12:00:00Z', nodes: nodes(...ids) } })

describe('otherThanSeen', () => {
  it('lets pass what was seen, in whatever order', () => {
    expect(otherThanSeen(site('a', 'b'), site('b', 'a'))).toBeUndefined()
  })

  it('refuses when nodes came or went, also when they are as many', () => {
    expect(otherThanSeen(site('a', 'b'), site('a', 'b', 'c'))?.code).toBe('breaker_changed')
    expect(otherThanSeen(site('a', 'b'), site('a', 'c'))?.code).toBe('breaker_changed')
  })

  it('refuses when it opened anew', () => {
    const again = site('a')
    again.breaker.since = '2026-03-01T13:00:00Z'
    expect(otherThanSeen(site('a'), again)?.code).toBe('breaker_changed')
  })

  it('refuses when somebody else was faster', () => {
    expect(otherThanSeen(site('a'), { name: 'dc1' })?.code).toBe('breaker_closed')
    expect(otherThanSeen(site('a'), undefined)?.code).toBe('breaker_closed')
    expect(otherThanSeen(site('a'), { name: 'dc1', breaker: { ...site('a').breaker, confirmed_at: '2026-03-01T12:05:00Z' } })?.code).toBe('breaker_confirmed')
  })
})
