import { describe, expect, it } from 'vitest'
import { statesOf } from '../../api/states'
import { agentCards, askedFor, capacityCards, countedBy, filters, groups, groupsOf, statusesOf, toggled, totalOf, turnoverOf, type Summary } from './filters'

const summary = {
  total: 100,
  schedulable: 60,
  by_status: { active: 70, offline: 10, quarantined: 5, bootstrap_issued: 1, enrolling: 4, draining: 3, removing: 2, retired: 5 },
} as Summary

describe('askedFor', () => {
  it('sends what the contract knows and nothing else', () => {
    expect(askedFor({ q: ' c07 ', status: 'active,nonsense,offline', drift_state: 'in_sync', site_id: 'no-uuid', sort: 'evil', schedulable: 'maybe', agent: 'in_sync', held: 'yes', tainted: '' })).toEqual({
      q: 'c07',
      statuses: ['active', 'offline'],
      drift_state: 'in_sync',
      sort: 'hostname',
      order: 'asc',
    })
  })
})

describe('cards', () => {
  it.each([...agentCards.map((c) => ({ agent: c.agent })), ...capacityCards.map((c) => ({ [c.counted]: 'true' }))])('lead to the nodes that they count: %o', (search) => {
    expect(askedFor(search)).toEqual({ ...search, sort: 'hostname', order: 'asc' })
  })

  it('count by what the table is narrowed by', () => {
    const address = { agent: 'drift', held: 'true', tainted: 'false' }
    expect(countedBy(address)).toEqual(address)
    expect(totalOf(summary, address)).toBe(100)
  })
})

describe('turnoverOf', () => {
  it('takes the filters along, and nothing else of the address', () => {
    expect(turnoverOf({})).toEqual({ new: '1' })
    expect(turnoverOf({ q: 'c07', status: 'active', schedulable: 'true', sort: 'sku', add: '1', held: '' })).toEqual({ new: '1', q: 'c07', status: 'active', schedulable: 'true' })
  })

  it('does not lose a filter: more nodes would be turned over than were seen', () => {
    for (const k of filters) {
      expect(turnoverOf({ region_code: 'eu-1', [k]: 'x' })).toHaveProperty(k, 'x')
    }
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

describe('groupsOf', () => {
  const state = { meaning: '', terminal: false, traits: [], events: [] }

  it('takes a new state into the group of its tone', () => {
    const made = groupsOf([
      { ...state, name: 'active', tone: 'ok' },
      { ...state, name: 'resting', tone: 'info' },
      { ...state, name: 'lost', tone: 'bad' },
      { ...state, name: 'gone', tone: 'idle', terminal: true },
    ])
    expect(made.map((g) => [g.key, g.title, ...g.states])).toEqual([
      ['active', 'Active', 'active'],
      ['lost', 'Lost', 'lost'],
      ['in_progress', 'In progress', 'resting'],
    ])
  })

  it('shows every state but the last once', () => {
    const shown = groups.flatMap((g) => g.states)
    const lasting = statesOf('node').filter((s) => !s.terminal)
    expect([...shown].sort()).toEqual(lasting.map((s) => s.name).sort())
    expect(shown).toContain('active')
    expect(shown).not.toContain('deleted')
  })
})
