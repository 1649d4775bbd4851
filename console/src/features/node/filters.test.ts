import { describe, expect, it } from 'vitest'
import { askedFor, groups, statusesOf, toggled, totalOf, type Summary } from './filters'

const summary = {
  total: 100,
  schedulable: 60,
  by_status: { active: 70, offline: 10, quarantined: 5, bootstrap_issued: 1, enrolling: 4, draining: 3, removing: 2, retired: 5 },
} as Summary

describe('askedFor', () => {
  it('sends what the contract knows and nothing else', () => {
    expect(askedFor({ q: ' c07 ', status: 'active,nonsense,offline', drift_state: 'in_sync', site_id: 'no-uuid', sort: 'evil', schedulable: 'maybe' })).toEqual({
      q: 'c07',
      statuses: ['active', 'offline'],
      drift_state: 'in_sync',
      sort: 'hostname',
      order: 'asc',
    })
  })
})

describe('totalOf', () => {
  it('counts what the filter finds', () => {
    expect(totalOf(summary, {})).toBe(100)
    expect(totalOf(summary, { status: 'offline,retired' })).toBe(15)
    expect(totalOf(summary, { schedulable: 'true' })).toBe(60)
    expect(totalOf(summary, { schedulable: 'true', status: 'offline' })).toBe(0)
    expect(totalOf(summary, { schedulable: 'false' })).toBe(40)
    expect(totalOf(summary, { schedulable: 'false', status: 'active' })).toBe(10)
    expect(totalOf(summary, { schedulable: 'false', status: 'offline' })).toBe(10)
  })

  it('does not know deleted nodes', () => {
    expect(totalOf(summary, { status: 'deleted' })).toBeUndefined()
  })
})

describe('toggled', () => {
  it('asks for states, and for all when asked again', () => {
    const several = groups[3]?.states ?? []
    const on = toggled({}, several)
    expect(statusesOf({ status: on })).toEqual(several)
    expect(toggled({ status: on }, several)).toBeUndefined()
    expect(toggled({ status: 'enrolling' }, several)).toBe(on)
  })
})
