import { describe, expect, it } from 'vitest'
import { draftOf, lasting, valuesOf, type Draft } from './settings'

const nothing: Draft = { usual: 'left', usualLife: '7d', most: 'left', mostLife: '30d', root: 'left' }

describe('valuesOf', () => {
  it('leaves out what is left to others', () => {
    expect(valuesOf(nothing)).toEqual({ body: {}, wrong: {} })
  })
  it('says what is set, never included', () => {
    expect(valuesOf({ ...nothing, usual: 'never', most: 'set', mostLife: '30d', root: 'no' }).body).toEqual({ default_expiry_seconds: 0, max_expiry_seconds: 2_592_000, root_access: false })
  })
  it('wants to know how long, and nothing longer than the longest', () => {
    expect(valuesOf({ ...nothing, usual: 'set', usualLife: '' }).wrong.usual).toBeTruthy()
    expect(valuesOf({ ...nothing, most: 'set', mostLife: '1m' }).wrong.most).toBeTruthy()
    expect(valuesOf({ ...nothing, usual: 'set', usualLife: '31d', most: 'set' }).wrong.usual).toContain('longest')
  })
})

it.each([
  {},
  { default_expiry_seconds: 0, root_access: true },
  { default_expiry_seconds: 43_200, max_expiry_seconds: 604_800, root_access: false },
])('a form of what is set sends the same again: %o', (set) => expect(valuesOf(draftOf(set))).toEqual({ body: set, wrong: {} }))

it('says how long', () => {
  expect(lasting(0, 'for ever')).toBe('for ever')
  expect(lasting(604_800, 'for ever')).toBe('7 d')
})
