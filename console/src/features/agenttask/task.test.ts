import { describe, expect, it } from 'vitest'
import { askedBy, stepRows, waitsFor, type Step } from './task'

const at = (second: number) => `2026-01-01T00:00:${String(second).padStart(2, '0')}Z`
const step = (seq: number, name: string, status: Step['status'], more: Partial<Step> = {}): Step => ({ seq, name, status, at: at(seq), attempt: 1, ...more })

describe('stepRows', () => {
  it('makes one row of the reports of a step', () => {
    expect(stepRows([step(1, 'scrub', 'started', { percent: 0 }), step(2, 'scrub', 'started', { percent: 60, message: 'GPU 3' }), step(3, 'scrub', 'succeeded')])).toEqual([
      { key: '1/scrub', name: 'scrub', attempt: 1, status: 'succeeded', began: at(1), ended: at(3), percent: 60, message: 'GPU 3' },
    ])
  })

  it('goes by the number of a report, not by where it stands', () => {
    expect(stepRows([step(3, 'a', 'failed'), step(1, 'a', 'started'), step(2, 'b', 'skipped')]).map((r) => [r.name, r.status])).toEqual([
      ['a', 'failed'],
      ['b', 'skipped'],
    ])
  })

  it('keeps attempts apart', () => {
    const rows = stepRows([step(1, 'a', 'started'), step(2, 'a', 'started', { attempt: 2 }), step(3, 'a', 'succeeded', { attempt: 2 })])
    expect(rows.map((r) => [r.attempt, r.status, r.ended])).toEqual([
      [1, 'started', undefined],
      [2, 'succeeded', at(3)],
    ])
  })
})

describe('waitsFor', () => {
  const task = { cancel_requested: false, attempt: 0, max_attempts: 3 }
  it.each([
    [{ ...task, status: 'succeeded' }, undefined],
    [{ ...task, status: 'queued' }, /fetch/],
    [{ ...task, status: 'queued', attempt: 2 }, /silent.* 1 more time at most/],
    [{ ...task, status: 'dispatched', attempt: 1 }, /works on it/],
    [{ ...task, status: 'dispatched', attempt: 1, cancel_requested: true }, /told to stop/],
  ] as const)('%o', (t, text) => {
    const said = waitsFor(t)
    if (text === undefined) expect(said).toBeUndefined()
    else expect(said).toMatch(text)
  })
})

describe('askedBy', () => {
  it('tells jobs, parts of the control plane and people apart', () => {
    expect(askedBy('system:workflow:decommission-01a1e0b0-01d1-7323-95ec-0727a9c016e8')).toEqual({ kind: 'job', job: { kind: 'decommission', id: '01a1e0b0-01d1-7323-95ec-0727a9c016e8' } })
    expect(askedBy('system:reconciliation')).toEqual({ kind: 'system', name: 'reconciliation' })
    expect(askedBy('01a1e09a-a7f0-762b-9902-336976eefcfa')).toEqual({ kind: 'actor', id: '01a1e09a-a7f0-762b-9902-336976eefcfa' })
  })
})
