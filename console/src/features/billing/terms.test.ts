import { expect, it } from 'vitest'
import { costOf, costToCome, heldFor, hourOf, whyFree, type Terms } from './terms'

const terms: Terms = { basis: 'priced', price_minor: 350, paid_share: 8500, units: 8, currency: 'USD' }
const at = (time: string) => Date.parse(`2026-03-${time}Z`)
const iso = (time: string) => `2026-03-${time}Z`

it('reckons as the ledger does: whole seconds, and the rest cut off once', () => {
  expect(costOf(terms, 3600)).toBe(2380)
  expect(costOf(terms, 1)).toBe(0)
  expect(costOf(terms, 2)).toBe(1) // 1.32
  expect(costOf(terms, 3.999)).toBe(costOf(terms, 3))
  expect(costOf({ ...terms, basis: 'free_project' }, 3600)).toBe(0)
  // More than a number of JavaScript holds without loss on the way.
  expect(costOf({ ...terms, price_minor: 999_999_999_999, paid_share: 9_999, units: 1 }, 3600)).toBe(999_899_999_999)
})

it('says what an hour costs', () => {
  expect(hourOf(terms)).toBe(2380)
  expect(hourOf({ ...terms, price_minor: 1, units: 1 })).toBe(1) // 0.85
  expect(hourOf({ ...terms, basis: 'no_account' })).toBe(0)
})

it('charges from ready to the request for the end', () => {
  expect(heldFor({}, at('01T00:00:00'))).toBe(0)
  expect(heldFor({ active_at: iso('01T00:00:00') }, at('01T00:01:00'))).toBe(60)
  expect(heldFor({ active_at: iso('01T00:00:00'), release_requested_at: iso('01T00:00:30') }, at('05T00:00:00'))).toBe(30)
  expect(heldFor({ active_at: iso('01T00:01:00') }, at('01T00:00:00'))).toBe(0) // the clock of the browser is behind
})

it('knows what is to come', () => {
  const a = { active_at: iso('01T00:00:00') }
  const now = at('10T00:00:00')
  expect(costToCome(a, terms, now, at('10T10:00:00'))).toBe(23_800)
  expect(costToCome({ ...a, expires_at: iso('10T01:00:00') }, terms, now, at('10T10:00:00'))).toBe(2_380)
  expect(costToCome({ ...a, expires_at: iso('09T00:00:00') }, terms, now, at('10T10:00:00'))).toBe(0) // its release is on its way
  expect(costToCome({ ...a, release_requested_at: iso('02T00:00:00') }, terms, now, at('10T10:00:00'))).toBe(0)
  expect(costToCome({}, terms, now, at('10T10:00:00'))).toBe(0)
})

it('says why something is free', () => {
  expect(whyFree(terms)).toBeUndefined()
  expect(whyFree({ ...terms, basis: 'free_project', free_because: 'research' })).toContain('(research)')
  expect(whyFree({ ...terms, basis: 'no_account' })).toContain('no billing account')
  expect(whyFree({ ...terms, paid_share: 0 })).toContain('zero')
})
