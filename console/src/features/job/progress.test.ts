import { describe, expect, it } from 'vitest'
import type { Job, LedgerEvent, Stage } from './job'
import { isLate, paceOf, remaining, segments, steps, stoodStillAt } from './progress'

const stage = (number: number, name: string, typical_seconds?: number, detour = false): Stage => ({ number, name, title: name, detour, does: '', expects: '', typical_seconds, usually: typical_seconds === undefined ? '10 min' : undefined })
const stages = [stage(1, 'find', 10), stage(2, 'deploy', 100), stage(3, 'mend', undefined, true), stage(4, 'prove', 5)]
const now = Date.parse('2026-01-01T00:10:00Z')
const ago = (seconds: number) => new Date(now - seconds * 1000).toISOString()

const job = (of: Partial<Job>): Job => ({
  hostname: 'c07u01',
  node_id: 'n',
  status: 'running',
  current_stage: 'find',
  current_attempt: 1,
  stage_number: 1,
  stage_total: 4,
  requested_at: ago(600),
  requested_by: 'p',
  updated_at: ago(0),
  observed: { maas_ips: [] },
  epoch: 1,
  adopted: false,
  correlation_id: 'c',
  workflow_id: 'w',
  ...of,
})

describe('segments', () => {
  it.each([
    [{ status: 'pending', current_stage: 'find' }, ['ahead', 'ahead', 'ahead', 'ahead']],
    [{ status: 'running', current_stage: 'deploy' }, ['done', 'current', 'ahead', 'ahead']],
    [{ status: 'running', current_stage: 'mend' }, ['done', 'failed', 'current', 'ahead']],
    [{ status: 'failed_retryable', current_stage: 'mend' }, ['done', 'failed', 'failed', 'ahead']],
    [{ status: 'failed_retryable', current_stage: 'prove' }, ['done', 'done', 'skipped', 'failed']],
    [{ status: 'completed', current_stage: 'prove' }, ['done', 'done', 'skipped', 'done']],
    [{ status: 'cancelled', current_stage: 'deploy' }, ['done', 'stopped', 'ahead', 'ahead']],
    [{ status: 'compensating', current_stage: 'compensate' }, ['ahead', 'ahead', 'ahead', 'ahead']],
  ] as const)('%j', (of, expected) => {
    expect(segments(of, stages)).toEqual(expected)
  })
  it('does not take the way to a second detour for passed by', () => {
    const two = [stage(1, 'deploy'), stage(2, 'classify', undefined, true), stage(3, 'mend', undefined, true), stage(4, 'prove')]
    expect(segments({ status: 'running', current_stage: 'mend' }, two)).toEqual(['failed', 'done', 'current', 'ahead'])
  })
})

describe('remaining', () => {
  it('adds what is left of the present stage to the stages ahead, without detours', () => {
    expect(remaining(job({ current_stage: 'deploy', stage_started_at: ago(40) }), stages, now)).toBe(65)
  })
  it('counts a stage that takes longer than usual as about to end', () => {
    expect(remaining(job({ current_stage: 'deploy', stage_started_at: ago(400) }), stages, now)).toBe(5)
  })
  it('does not count the time that a pending one has waited', () => {
    expect(remaining(job({ status: 'pending', stage_started_at: ago(400) }), stages, now)).toBe(115)
  })
  it('is not known when a stage ahead was never passed, or an operator is waited for', () => {
    expect(remaining(job({}), [...stages, stage(5, 'new')], now)).toBeUndefined()
    expect(remaining(job({ status: 'failed_retryable' }), stages, now)).toBeUndefined()
    expect(remaining(job({ current_stage: 'mend' }), stages, now)).toBeUndefined()
  })
  it('takes a second for what was never passed and does not wait', () => {
    expect(remaining(job({}), [stage(1, 'find', 10), { ...stage(2, 'set up'), usually: undefined }], now)).toBe(11)
  })
  it('is nothing for what is over', () => {
    expect(remaining(job({ status: 'completed' }), stages, now)).toBe(0)
  })
})

it('is late only when a stage takes more than twice its time and half a minute more', () => {
  expect(isLate(job({ current_stage: 'deploy', stage_started_at: ago(199) }), stages, now)).toBe(false)
  expect(isLate(job({ current_stage: 'deploy', stage_started_at: ago(201) }), stages, now)).toBe(true)
  expect(isLate(job({ current_stage: 'prove', stage_started_at: ago(20) }), stages, now)).toBe(false)
  expect(isLate(job({ status: 'failed_retryable', current_stage: 'deploy', stage_started_at: ago(999) }), stages, now)).toBe(false)
})

it('takes no longer once it is over, also when nobody wrote down its end', () => {
  expect(stoodStillAt(job({ status: 'running' }))).toBeUndefined()
  expect(stoodStillAt(job({ status: 'failed_retryable', parked_at: ago(60) }))).toBe(ago(60))
  expect(stoodStillAt(job({ status: 'completed', completed_at: ago(30) }))).toBe(ago(30))
  expect(stoodStillAt(job({ status: 'cancelled', updated_at: ago(20) }))).toBe(ago(20))
})

describe('steps', () => {
  let seq = 0
  const entry = (stage: string, status: LedgerEvent['status'], attempt: number, epoch = 1, message?: string): LedgerEvent => ({ seq: ++seq, stage, status, attempt, epoch, message, occurred_at: new Date(now + seq * 1000).toISOString() })

  it('gathers attempts below their stage, and keeps what operators did between', () => {
    const way = steps([
      entry('find', 'started', 1),
      entry('find', 'succeeded', 1),
      entry('deploy', 'started', 1),
      entry('deploy', 'note', 1, 1, 'still deploying'),
      entry('deploy', 'failed', 1, 1, 'timed out'),
      entry('deploy', 'started', 2),
      entry('deploy', 'failed', 2, 1, 'timed out again'),
      entry('deploy', 'action', 0, 2, 'cable replaced'),
      entry('deploy', 'started', 1, 2),
    ])
    expect(way.map((s) => (s.kind === 'action' ? 'action' : `${s.stage} ${s.attempts.map((a) => a.outcome).join(',')}`))).toEqual(['find succeeded', 'deploy failed,failed', 'action', 'deploy running'])
    const deploy = way[1]
    if (deploy?.kind !== 'stage') throw new Error('no stage')
    expect(deploy.attempts[0]?.notes.map((n) => n.message)).toEqual(['still deploying'])
    expect(deploy.attempts[1]?.message).toBe('timed out again')
    expect(deploy.attempts[0]?.startedAt).not.toBe(deploy.attempts[1]?.startedAt)
  })

  it('makes of going back to a stage a step of its own', () => {
    const way = steps([entry('deploy', 'started', 1), entry('deploy', 'failed', 1), entry('mend', 'started', 1), entry('mend', 'succeeded', 1), entry('deploy', 'started', 1)])
    expect(way.map((s) => s.kind === 'stage' && s.stage)).toEqual(['deploy', 'mend', 'deploy'])
  })

  it('takes an ending without a beginning, which stages have that were not needed', () => {
    const [only] = steps([entry('prove', 'skipped', 1)])
    expect(only).toMatchObject({ kind: 'stage', attempts: [{ outcome: 'skipped', notes: [] }] })
  })
})

describe('paceOf', () => {
  it('counts completed ones per hour since the first began, and divides what is left by what runs at once', () => {
    const rows = [
      job({ status: 'completed', started_at: ago(360), completed_at: ago(60) }),
      job({ status: 'completed', started_at: ago(360), completed_at: ago(30) }),
      job({ current_stage: 'deploy', started_at: ago(60), stage_started_at: ago(0) }),
      job({ current_stage: 'deploy', started_at: ago(60), stage_started_at: ago(0) }),
      job({ status: 'pending' }),
      job({ status: 'failed_retryable', started_at: ago(60) }),
    ]
    expect(paceOf(rows, stages, now)).toEqual({ perHour: 20, secondsLeft: (105 + 105 + 115) / 2 })
  })
  it('knows nothing of a batch that has not begun', () => {
    expect(paceOf([job({ status: 'pending' })], [stage(1, 'find')], now)).toEqual({ perHour: undefined })
  })
  it('keeps the pace of a batch that has come to rest', () => {
    expect(paceOf([job({ status: 'completed', started_at: ago(600), completed_at: ago(240) })], stages, now)).toEqual({ perHour: 10, secondsLeft: 0 })
  })
})
