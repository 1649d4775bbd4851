import { describe, expect, it } from 'vitest'
import type { Schemas } from '../../api/client'
import { matters } from './attention'

const calm = {
  by_status: { offline: 0, quarantined: 0 },
  jobs: { onboardings_parked: 0, decommissions_parked: 0 },
  findings: { critical: 0, warning: 0 },
} as Schemas['FleetviewSummary']

describe('matters', () => {
  it('are none when all is well, and none when nothing is known', () => {
    expect(matters({})).toEqual([])
    expect(matters({ summary: calm, system: { ready: true, dependencies: [{ name: 'nats', up: true }], outbox: [], workers: [] } as unknown as Schemas['SystemStatus'] })).toEqual([])
  })

  it('come the worst first, each with its page', () => {
    const found = matters({
      summary: { ...calm, by_status: { ...calm.by_status, offline: 2 }, jobs: { ...calm.jobs, onboardings_parked: 1 } },
      reconciliation: { sites: [{ site_id: 's', name: 'lab', stale: true, last_error: { code: 'x', message: 'no answer' } }] } as unknown as Schemas['ReconciliationOverview'],
    })
    expect(found.map((m) => [m.title, m.to])).toEqual([
      ['1 onboarding is parked', '/onboardings'],
      ['lab: no complete answer from MAAS', '/drift'],
      ['2 nodes are offline', '/nodes'],
    ])
    expect(found[1]?.detail).toBe('no answer')
  })

  it('lead to the drift of their site, filtered as that page reads its address', () => {
    const [unheard] = matters({ reconciliation: { sites: [{ site_id: 's', name: 'lab', stale: true }] } as unknown as Schemas['ReconciliationOverview'] })
    expect(unheard?.search).toEqual({ site: 's' })
  })

  it('ask nobody about a breaker that was confirmed', () => {
    const breaker = { since: '2026-03-01T12:00:00Z', nodes: [{ node_id: 'n', hostname: 'h' }] }
    const of = (b: object) => matters({ reconciliation: { sites: [{ site_id: 's', name: 'lab', stale: false, breaker: b }] } as unknown as Schemas['ReconciliationOverview'] })
    expect(of(breaker).map((m) => m.tone)).toEqual(['bad'])
    expect(of({ ...breaker, confirmed_at: breaker.since }).map((m) => [m.tone, m.title])).toEqual([['info', 'lab: nodes are being quarantined']])
  })

  it('name queues that nobody works on, and what waits too long', () => {
    const system = {
      ready: true,
      dependencies: [],
      outbox: [{ destination: 'nats', pending: 3, failed: 0, oldest_age_seconds: 95 }],
      workers: [
        { task_queue: 'gpuaas', kind: 'workflow', pollers: 0, backlog: 2, oldest_age_seconds: 40 },
        { task_queue: 'gpuaas', kind: 'activity', pollers: 0, backlog: 0, oldest_age_seconds: 0 },
      ],
    } as unknown as Schemas['SystemStatus']
    expect(matters({ system }).map((m) => m.title)).toEqual(['No worker is running for gpuaas', 'Work has been waiting for 1 min 35 s'])
    const calmly = { ...system, outbox: [{ destination: 'nats', pending: 0, failed: 0, oldest_age_seconds: 95 }], workers: [{ task_queue: 'gpuaas', kind: 'workflow', pollers: 1, backlog: 1, oldest_age_seconds: 2 }] } as Schemas['SystemStatus']
    expect(matters({ system: calmly })).toEqual([])
  })

  it('name parked jobs with their cause, and count those that are not named', () => {
    const summary = { ...calm, jobs: { ...calm.jobs, onboardings_parked: 3 } }
    const parked = [{ hostname: 'gpu-00007', onboarding_id: 'a', failure: { error_message: 'the installation failed', error_remedy: 'read its log' } }, { hostname: 'gpu-00008', onboarding_id: 'b' }]
    expect(matters({ summary, parked: { onboarding: parked } }).map((m) => [m.title, m.detail, m.to])).toEqual([
      ['gpu-00007 is parked: the installation failed', 'read its log', '/onboardings/a'],
      ['gpu-00008 is parked', 'It does not continue until an operator acts.', '/onboardings/b'],
      ['1 more onboarding is parked', 'None continues until an operator acts.', '/onboardings'],
    ])
    // One that went on since the list was read is not parked any more.
    expect(matters({ summary: { ...calm, jobs: { ...calm.jobs, onboardings_parked: 1 } }, parked: { onboarding: parked } })).toHaveLength(1)
    expect(matters({ summary: calm, parked: { onboarding: parked } })).toEqual([])
  })

  it('name warnings of reconciliation', () => {
    expect(matters({ summary: { ...calm, findings: { ...calm.findings, warning: 2 } } }).map((m) => [m.title, m.search])).toEqual([['2 warning findings', { tab: 'findings', severity: 'warning' }]])
  })

  it('name turnovers that were halted', () => {
    const batches = [{ batch_id: 'b', mode: 'reimage', state: 'halted', total: 10, failed: 3 }, { batch_id: 'c', state: 'settled' }] as Schemas['DecommissionBatchView'][]
    expect(matters({ batches: { decommission: batches } }).map((m) => [m.title, m.to])).toEqual([['A turnover of 10 nodes is halted', '/decommission-batches/b']])
    const onboardings = [{ batch_id: 'o', state: 'halted', total: 3, failed: 1 }] as Schemas['OnboardingBatchView'][]
    expect(matters({ batches: { onboarding: onboardings } }).map((m) => [m.title, m.to])).toEqual([['An onboarding of 3 nodes is halted', '/onboarding-batches/o']])
  })

  it('say that the control plane is not ready once', () => {
    const system = { ready: false, dependencies: [{ name: 'temporal', up: false, message: 'refused' }], outbox: [], workers: [] } as unknown as Schemas['SystemStatus']
    expect(matters({ system }).map((m) => m.title)).toEqual(['temporal is down'])
    expect(matters({ system: { ...system, dependencies: [] } }).map((m) => m.title)).toEqual(['The control plane is not ready'])
  })
})
