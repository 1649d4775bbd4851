import { describe, expect, it } from 'vitest'
import type { Me } from '../../app/session'
import { byTarget, causesOf, cellsOf, columnsOf } from './board'
import { allowed, condition, countsWords, mayApprove, maySteer, verbsOf, type Run, type Step, type Target } from './operation'

const none = { total: 3, waiting: 0, running: 0, succeeded: 3, failed: 0, canceled: 0, skipped: 0 }
const run = (patch: Partial<Run>) => ({ status: 'running', paused: false, cancel_requested: false, targets: none, org_id: 'o', project_id: 'p', requested_by: 'tess', ...patch }) as Run
const me = (patch: Partial<Me>) => ({ id: 'me', platform_role: 'none', platform_permissions: [], permissions: ['operation:run', 'operation:manage', 'operation:read'], tenants: [], projects: [], ...patch }) as unknown as Me

describe('what can be done to a run', () => {
  it('goes by its state', () => {
    expect(verbsOf(run({}))).toEqual(['pause', 'cancel'])
    expect(verbsOf(run({ paused: true }))).toEqual(['unpause', 'cancel'])
    expect(verbsOf(run({ paused: true, targets: { ...none, failed: 1 } }))).toEqual(['unpause', 'retry', 'cancel'])
    expect(verbsOf(run({ cancel_requested: true }))).toEqual([])
    expect(verbsOf(run({ status: 'queued', approval: { role: 'operator', awaited: true } }))).toEqual(['approve', 'pause', 'cancel'])
    expect(verbsOf(run({ status: 'failed', targets: { ...none, failed: 1 } }))).toEqual(['retry', 'again'])
    expect(verbsOf(run({ status: 'succeeded', targets: { ...none, skipped: 1 } }))).toEqual(['again'])
  })

  it('goes by who asks: their own, those of their project, or all', () => {
    const member = (id: string) => me({ id, projects: [{ org_id: 'o', project_id: 'p', role: 'project_member' }] as unknown as Me['projects'] })
    expect(maySteer(member('tess'), run({}))).toBe(true)
    expect(maySteer(member('tom'), run({}))).toBe(false)
    expect(maySteer(member('tess'), run({ project_id: 'other' }))).toBe(false)
    expect(maySteer(member('tess'), run({ org_id: undefined, project_id: undefined }))).toBe(false)
    expect(maySteer(me({ tenants: [{ org_id: 'o', role: 'tenant_admin' }] as unknown as Me['tenants'] }), run({}))).toBe(true)
    expect(maySteer(me({ platform_permissions: ['fleet_operation:run'] as Me['platform_permissions'] }), run({ project_id: undefined }))).toBe(true)
    expect(maySteer(me({ platform_role: 'auditor', platform_permissions: ['operation:read'] as Me['platform_permissions'] }), run({}))).toBe(false)
  })

  it('is approved by somebody else, with the role or a stronger one', () => {
    const waits = run({ status: 'queued', approval: { role: 'project_admin', awaited: true } })
    const admin = me({ id: 'tom', projects: [{ org_id: 'o', project_id: 'p', role: 'project_admin' }] as unknown as Me['projects'] })
    expect(mayApprove(admin, waits)).toBe(true)
    expect(mayApprove({ ...admin, id: 'tess' }, waits)).toBe(false)
    expect(mayApprove(me({ tenants: [{ org_id: 'o', role: 'tenant_admin' }] as unknown as Me['tenants'] }), waits)).toBe(true)
    expect(mayApprove(me({ platform_role: 'operator' }), waits)).toBe(false)
    expect(mayApprove(me({ platform_role: 'platform_admin' }), waits)).toBe(true)
    expect(mayApprove(me({ platform_role: 'operator' }), { ...waits, approval: { role: 'operator', awaited: true } })).toBe(true)
    expect(allowed(me({ platform_role: 'platform_admin' }), waits)).toEqual(['approve'])
  })
})

it('a run says in words how it stands', () => {
  expect(countsWords({ ...none, succeeded: 1, failed: 2 })).toBe('2 failed, 1 succeeded')
  expect(countsWords(none)).toBe('all 3 succeeded')
  expect(condition(run({ paused: true }))?.words).toBe('paused')
  expect(condition(run({ paused: true, cancel_requested: true }))?.words).toBe('stopping')
  expect(condition(run({ status: 'failed', paused: true }))).toBeUndefined()
})

describe('the board', () => {
  const columns = [
    { id: 'a', title: 'A' },
    { id: 'b', title: 'B' },
    { id: 'c', title: 'C' },
  ]
  const target = (patch: Partial<Target>) => ({ target_id: 't', hostname: 'n1', status: 'running', step_index: 0, attempt: 1, ...patch }) as Target
  const step = (step_index: number, patch: Partial<Step> = {}) => ({ target_id: 't', step_index, step_id: 'abc'.charAt(step_index), status: 'succeeded', attempt_number: 1, tries: 1, changed: false, ...patch }) as Step
  const shown = (t: Target, steps: Step[] = []) => cellsOf(t, columns, byTarget(steps).get('t')).map((c) => c.words)

  it('shows where a node is while it has told nothing', () => {
    expect(shown(target({ current_step: 'b', current_step_percent: 40 }))).toEqual(['done', 'running, 40 %', '–'])
    expect(shown(target({ status: 'waiting' }))).toEqual(['–', '–', '–'])
    expect(shown(target({ status: 'failed', step_index: 1 }))).toEqual(['done', 'failed', '–'])
    expect(shown(target({ status: 'succeeded', step_index: 3 }))).toEqual(['done', 'done', 'done'])
    expect(shown(target({ status: 'skipped' }))).toEqual(['–', '–', '–'])
    expect(shown(target({ probing: true }))).toEqual(['checking', '–', '–'])
  })

  it('shows a step that failed and was passed over, where only failed steps are known', () => {
    expect(shown(target({ status: 'succeeded', step_index: 3 }), [step(1, { status: 'failed' })])).toEqual(['done', 'failed', 'done'])
  })

  it('shows what became of each step, of the newest attempt', () => {
    const first = [step(0, { changed: true }), step(1, { status: 'failed', tries: 2 }), step(2, { status: 'not_reached' })]
    expect(shown(target({ status: 'failed', step_index: 1 }), first)).toEqual(['changed', 'failed (2 tries)', 'not reached'])
    const again = target({ status: 'running', step_index: 1, attempt: 2, current_step: 'b' })
    expect(shown(again, first)).toEqual(['changed', 'running', '–'])
    const second = [...first, step(1, { attempt_number: 2 }), step(2, { attempt_number: 2 })]
    expect(shown(target({ status: 'succeeded', step_index: 3, attempt: 2 }), second)).toEqual(['changed', 'done (attempt 2)', 'done (attempt 2)'])
  })

  it('has a column for each step, also when the definition is gone', () => {
    expect(columnsOf({ total_steps: 2 }, [{ id: 'a', title: 'A' }, { id: 'b' }], [])).toEqual([{ id: 'a', title: 'A' }, { id: 'b', title: 'b' }])
    expect(columnsOf({ total_steps: 2 }, undefined, [step(0)])).toEqual([{ id: 'a', title: 'a' }, { id: 'step 2', title: 'Step 2' }])
  })

  it('puts nodes together that failed for the same cause', () => {
    const error = { code: 'x', message: 'no room', remedy: 'make room' }
    expect(causesOf([target({ error: { code: 'y', message: 'gone' } }), target({ hostname: 'n2', error }), target({ hostname: 'n3', error }), target({})])).toEqual([
      { ...error, hostnames: ['n2', 'n3'] },
      { code: 'y', message: 'gone', remedy: undefined, hostnames: ['n1'] },
    ])
  })
})
