import { beforeEach, describe, expect, it } from 'vitest'
import { BoardStore, isCertain, patched } from './boardstore'
import { named, type Job, type JobHappening, type Stage } from './job'

const stage = (number: number, name: string, detour = false): Stage => ({ number, name, title: name, detour, does: '', expects: '' })
const stages = [stage(1, 'find'), stage(2, 'deploy'), stage(3, 'mend', true), stage(4, 'prove')]
const at = '2026-01-01T00:00:00Z'

type Row = Job & { id: string }

const row = (id: string, of: Partial<Row> = {}): Row => ({
  id,
  hostname: id,
  node_id: 'n',
  status: 'running',
  current_stage: 'find',
  current_attempt: 1,
  stage_number: 1,
  stage_total: 4,
  requested_at: at,
  requested_by: 'p',
  updated_at: at,
  observed: { maas_ips: [] },
  epoch: 1,
  adopted: false,
  correlation_id: 'c',
  workflow_id: 'w',
  ...of,
})

const said = (of: Partial<JobHappening>): JobHappening => ({ status: 'running', stage: 'find', attempt: 1, ...of })

describe('patched', () => {
  it('is at the stage that follows, past detours, when an attempt succeeded', () => {
    const next = patched(row('a', { current_stage: 'deploy' }), said({ stage: 'deploy', stage_status: 'succeeded', attempt: 2 }), stages, '2026-01-01T00:01:00Z')
    expect(next).toMatchObject({ current_stage: 'prove', stage_number: 4, stage_started_at: '2026-01-01T00:01:00Z', current_attempt: 1 })
  })
  it('says why it is parked, and forgets it when it goes on', () => {
    const parked = patched(row('a'), said({ status: 'failed_retryable', stage_status: 'failed', message: 'no answer', error_code: 'bmc', failure_class: 'bmc_power_failure', recommended_action: 'retry_stage' }), stages, at)
    expect(parked).toMatchObject({ status: 'failed_retryable', current_stage: 'find', parked_at: at, recommended_action: 'retry_stage', failure: { error_message: 'no answer', error_code: 'bmc' } })
    const goesOn = patched(parked, said({ stage_status: 'action', message: 'cable replaced', attempt: 0 }), stages, at)
    expect(goesOn.failure).toBeUndefined()
    expect(goesOn.parked_at).toBeUndefined()
  })
  it('is what a request about many names, also after somebody acted on it', () => {
    const acted = patched(row('a', { onboarding_id: 'o1' }), said({ stage_status: 'action', epoch: 2 }), stages, at)
    expect(named(acted)).toEqual({ job_id: 'o1', epoch: 2 })
    expect(patched(acted, said({}), stages, at).epoch).toBe(2)
  })
  it('has ended when the job is over, and nothing that was asked for is open', () => {
    expect(patched(row('a', { pending_action: 'cancel' }), said({ status: 'cancelled', stage_status: 'compensated' }), stages, at).pending_action).toBeUndefined()
    expect(patched(row('a'), said({ status: 'completed', stage: 'prove', stage_status: 'succeeded' }), stages, at)).toMatchObject({ status: 'completed', current_stage: 'prove', completed_at: at })
  })
})

it('is certain of what an event tells, unless the next stage is not in it', () => {
  expect(isCertain(said({ stage_status: 'succeeded' }), stages)).toBe(true)
  expect(isCertain(said({ stage_status: 'failed' }), stages)).toBe(false)
  expect(isCertain(said({ stage_status: 'failed', status: 'failed_retryable' }), stages)).toBe(true)
  expect(isCertain(said({ stage_status: 'succeeded', stage: 'mend' }), stages)).toBe(false)
  expect(isCertain(said({ stage_status: 'action' }), stages)).toBe(false)
})

describe('BoardStore', () => {
  let frames: (() => void)[]
  let store: BoardStore<Row>
  const draw = () => frames.splice(0).forEach((fn) => fn())

  beforeEach(() => {
    frames = []
    store = new BoardStore<Row>({ keyOf: (r) => r.id, frame: (fn) => frames.push(fn) })
    store.load([row('n10'), row('n2'), row('n1', { status: 'failed_retryable' })], 0)
  })

  it('tells of what changes without a change of state, such as what is recommended', () => {
    let told = 0
    let lists = 0
    store.watchAll(() => told++)
    store.subscribe(() => lists++)
    store.patch(row('n1', { status: 'failed_retryable', recommended_action: 'resume' }), 1)
    draw()
    expect([told, lists]).toEqual([1, 0])
    expect(store.row('n1')?.recommended_action).toBe('resume')
  })

  it('puts patches in place once per frame, and tells only the rows that changed', () => {
    const told: string[] = []
    for (const key of ['n1', 'n2', 'n10']) store.watchRow(key, () => told.push(key))
    let lists = 0
    store.subscribe(() => lists++)
    store.patch(row('n2', { current_stage: 'deploy' }), 1)
    store.patch(row('n2', { current_stage: 'prove' }), 2)
    expect(frames).toHaveLength(1)
    expect(store.row('n2')?.current_stage).toBe('find')
    draw()
    expect(store.row('n2')?.current_stage).toBe('prove')
    expect(told).toEqual(['n2'])
    expect(lists).toBe(0)
  })

  it('tells the list when a status changed, and counts anew', () => {
    let lists = 0
    store.subscribe(() => lists++)
    store.patch(row('n2', { status: 'completed' }), 1)
    draw()
    expect(lists).toBe(1)
    expect(store.counts().completed).toBe(1)
  })

  it('orders by name as people count, and shows parked ones first on request', () => {
    expect(store.keys()).toEqual(['n1', 'n2', 'n10'])
    store.load([row('n3', { status: 'failed_manual_intervention' }), row('n1')], 9)
    store.show({ status: '', parkedFirst: true })
    expect(store.keys()).toEqual(['n3', 'n1'])
    store.show({ status: 'failed', parkedFirst: false })
    expect(store.keys()).toEqual(['n3'])
  })

  it('keeps what an event told after the reading began', () => {
    store.patch(row('n2', { current_stage: 'prove' }), 50)
    draw()
    store.load([row('n2'), row('n1')], 40)
    expect(store.row('n2')?.current_stage).toBe('prove')
    store.load([row('n2', { current_stage: 'mend' }), row('n1')], 60)
    expect(store.row('n2')?.current_stage).toBe('mend')
  })

  it('keeps rows that were read again and are as they were', () => {
    const before = store.row('n2')
    store.load([row('n2'), row('n1')], 100)
    expect(store.row('n2')).toBe(before)
    expect(store.row('n10')).toBeUndefined()
  })
})
