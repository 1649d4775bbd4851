import { describe, expect, it } from 'vitest'
import { mayCancel, shortOnes, stateTone, usage, wishOf, type Draft } from './reservation'

const kept = { state: 'active', used: 1, held: 2, short_by: 1, nodes: 4 } as const

it('says how it is used, and warns of what is missing', () => {
  expect(usage(kept)).toBe('1 rented, 2 kept free, 1 missing')
  expect(usage({ ...kept, short_by: 0 })).toBe('1 rented, 2 kept free')
  expect(usage({ ...kept, state: 'upcoming' })).toBe('')
  expect(stateTone(kept)).toBe('warn')
  expect(stateTone({ ...kept, short_by: 0 })).toBe('ok')
  expect(shortOnes([kept, { short_by: 0 }])).toEqual([kept])
})

it('ends only what has not ended', () => {
  expect((['upcoming', 'active'] as const).every((state) => mayCancel({ state }))).toBe(true)
  expect((['ended', 'cancelled'] as const).some((state) => mayCancel({ state }))).toBe(false)
})

describe('wishOf', () => {
  const now = Date.parse('2026-03-04T05:06:00Z')
  const draft: Draft = { orgId: 'acme', projectId: '', sku: 'h200', nodes: '4', from: '', until: '2026-04-01T00:00Z', region: ' ', rack: '', pool: '', labels: '', reason: '', force: false }

  it('begins now, for all projects, anywhere, where nothing else is said', () => {
    const { body, ready } = wishOf(draft, now)
    expect(ready).toBe(true)
    expect(JSON.parse(JSON.stringify(body))).toEqual({ org_id: 'acme', sku: 'h200', nodes: 4, ends_at: '2026-04-01T00:00:00.000Z' })
  })

  it('passes on what is said', () => {
    const { body } = wishOf({ ...draft, projectId: 'p', from: '2026-03-05T00:00Z', rack: 'r7', labels: 'disk=nvme', reason: 'contract 17', force: true }, now)
    expect(body).toMatchObject({ project_id: 'p', starts_at: '2026-03-05T00:00:00.000Z', rack: 'r7', node_labels: { disk: 'nvme' }, reason: 'contract 17', force: true })
  })

  it.each([
    ['no end', { until: '' }],
    ['an end before the beginning', { from: '2026-05-01T00:00Z' }],
    ['an end in the past', { until: '2026-03-01T00:00Z' }],
    ['no nodes', { nodes: '0' }],
    ['half a node', { nodes: '1.5' }],
    ['a label that is none', { labels: 'fast' }],
    ['nobody', { orgId: '' }],
  ])('is not ready with %s', (_, wrong) => expect(wishOf({ ...draft, ...wrong }, now).ready).toBe(false))
})
