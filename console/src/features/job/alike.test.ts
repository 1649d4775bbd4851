import { describe, expect, it } from 'vitest'
import { alike } from './alike'
import type { Job } from './job'

const job = (hostname: string, of: Partial<Job>): Job => ({
  hostname,
  node_id: 'n',
  status: 'failed_manual_intervention',
  current_stage: 'release',
  current_attempt: 1,
  stage_number: 1,
  stage_total: 4,
  requested_at: '2026-01-01T00:00:00Z',
  requested_by: 'p',
  updated_at: '2026-01-01T00:00:00Z',
  observed: { maas_ips: [] },
  epoch: 1,
  adopted: false,
  correlation_id: 'c',
  workflow_id: 'w',
  recommended_action: 'adopt_observed_state',
  failure: { failure_class: 'state_ambiguity', error_code: 'released_elsewhere', error_message: '' },
  ...of,
})

describe('alike', () => {
  it('groups parked jobs by stage, cause and what is recommended', () => {
    const found = alike([
      job('a', { recommended_action: 'retry_stage' }),
      job('b', {}),
      job('c', {}),
      job('running', { status: 'running', recommended_action: undefined }),
      job('asked already', { pending_action: 'retry_stage' }),
    ])
    expect(found.map((g) => [g.action, g.code, g.jobs.map((j) => j.hostname)])).toEqual([
      ['adopt_observed_state', 'released_elsewhere', ['b', 'c']],
      ['retry_stage', 'released_elsewhere', ['a']],
    ])
  })
  it('leaves out what destroys or gives up something', () => {
    expect(alike([job('a', { recommended_action: 'restart_clean' }), job('b', { recommended_action: 'cancel' })])).toEqual([])
  })
})
