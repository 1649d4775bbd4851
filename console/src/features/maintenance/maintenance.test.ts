import { describe, expect, it } from 'vitest'
import { answered, mayBegin, mayCancel, mayFinish, open, selectorOf, statuses } from './maintenance'

it('knows what is not over', () => {
  expect(open).toEqual(['announced', 'consented', 'declined', 'under_way'])
  expect(statuses.length).toBeGreaterThan(open.length)
})

it('offers what can be done', () => {
  expect(mayBegin({ status: 'consented', kind: 'reboot' })).toBe(true)
  expect(mayBegin({ status: 'consented', kind: 'release' })).toBe(false) // it ends by itself at its time
  expect(mayBegin({ status: 'declined', kind: 'reboot' })).toBe(false)
  expect(mayFinish({ status: 'under_way' })).toBe(true)
  expect(mayFinish({ status: 'announced' })).toBe(false)
  expect(mayCancel({ status: 'declined' })).toBe(true)
  expect(mayCancel({ status: 'under_way' })).toBe(false)
})

describe('answered', () => {
  const asked = { consent_asked: true, status: 'announced' as const }
  it('says that nobody has answered, or was asked', () => {
    expect(answered(asked)).toBe('asked, not answered yet')
    expect(answered({ ...asked, status: 'lapsed' })).toBe('asked, not answered')
    expect(answered({ ...asked, consent_asked: false })).toBe('told, not asked')
  })
  it('says who said what', () => {
    const by = { ...asked, answered_at: 'x', answered_by_name: 'Tess' }
    expect(answered({ ...by, status: 'consented' })).toBe('Tess agreed')
    expect(answered({ ...by, status: 'consented', begins_now: true })).toBe('Tess agreed to begin at once')
    expect(answered({ ...by, status: 'declined', answer: 'a training runs' })).toBe('Tess declined: a training runs')
    expect(answered({ ...by, status: 'lapsed' })).toBe('Tess answered')
  })
})

it('means no node unless something is said', () => {
  const nothing = { region: '', rack: ' ', pool: '', sku: '', labels: '' }
  expect(selectorOf(nothing)).toEqual({})
  expect(selectorOf({ ...nothing, rack: 'c07', labels: 'disk=nvme' }).selector).toEqual({ rack: 'c07', labels: { disk: 'nvme' } })
  expect(selectorOf({ ...nothing, labels: 'disk' }).wrong).toBeTruthy()
})
