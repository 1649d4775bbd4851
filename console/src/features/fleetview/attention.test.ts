import { describe, expect, it } from 'vitest'
import type { Schemas } from '../../api/client'
import { matters } from './attention'

const calm = {
  by_status: { offline: 0, quarantined: 0 },
  jobs: { onboardings_parked: 0, decommissions_parked: 0 },
  findings: { critical: 0 },
} as Schemas['FleetviewSummary']

describe('matters', () => {
  it('are none when all is well, and none when nothing is known', () => {
    expect(matters({})).toEqual([])
    expect(matters({ summary: calm, system: { ready: true, dependencies: [{ name: 'nats', up: true }], outbox: [] } as unknown as Schemas['SystemStatus'] })).toEqual([])
  })

  it('come the worst first, each with its page', () => {
    const found = matters({
      summary: { ...calm, by_status: { ...calm.by_status, offline: 2 }, jobs: { ...calm.jobs, onboardings_parked: 1 } },
      reconciliation: { sites: [{ site_id: 's', name: 'lab', stale: true, last_error: { code: 'x', message: 'no answer' } }] } as unknown as Schemas['ReconciliationOverview'],
    })
    expect(found.map((m) => [m.title, m.to])).toEqual([
      ['1 onboarding is parked', '/onboardings'],
      ['lab: MAAS is not heard', '/drift'],
      ['2 nodes are offline', '/nodes'],
    ])
    expect(found[1]?.detail).toBe('no answer')
  })

  it('leave out a breaker that was confirmed', () => {
    const breaker = { since: '2026-03-01T12:00:00Z', nodes: [{ node_id: 'n', hostname: 'h' }] }
    const of = (b: object) => matters({ reconciliation: { sites: [{ site_id: 's', name: 'lab', stale: false, breaker: b }] } as unknown as Schemas['ReconciliationOverview'] })
    expect(of(breaker)).toHaveLength(1)
    expect(of({ ...breaker, confirmed_at: breaker.since })).toEqual([])
  })

  it('say that the control plane is not ready once', () => {
    const system = { ready: false, dependencies: [{ name: 'temporal', up: false, message: 'refused' }], outbox: [] } as unknown as Schemas['SystemStatus']
    expect(matters({ system }).map((m) => m.title)).toEqual(['temporal is down'])
    expect(matters({ system: { ...system, dependencies: [] } }).map((m) => m.title)).toEqual(['The control plane is not ready'])
  })
})
