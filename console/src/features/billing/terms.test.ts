import { expect, it } from 'vitest'
import { costOf, costToCome, heldFor, hourOf, nextPrice, whyFree, type Terms } from './terms'

const terms: Terms = { basis: 'priced', price_minor: 350, paid_share: 8500, units: 8, currency: 'USD' }
const at = (time: string) => Date.parse(`2026-03-${time}Z`)
const iso = (time: string) => `2026-03-${time}Z`

it('reckons as the ledger does: whole seconds, and the rest cut off once', () => {
  expect(costOf(terms, 3600, 0)).toBe(2380)
  expect(costOf(terms, 1, 0)).toBe(0)
  expect(costOf(terms, 2, 0)).toBe(1) // 1.32
  expect(costOf(terms, 3.999, 0)).toBe(costOf(terms, 3, 0))
  expect(costOf({ ...terms, basis: 'free_project' }, 3600, 0)).toBe(0)
  // More than a number of JavaScript holds without loss on the way.
  expect(costOf({ ...terms, price_minor: 999_999_999_999, paid_share: 9_999, units: 1 }, 3600, 0)).toBe(999_899_999_999)
})

it('says what an hour costs', () => {
  expect(hourOf(terms, 0)).toBe(2380)
  expect(hourOf({ ...terms, price_minor: 1, units: 1 }, 0)).toBe(1) // 0.85
  expect(hourOf({ ...terms, basis: 'no_account' }, 0)).toBe(0)
})

it('follows the list: each second at the price of then, and one cut at the end', () => {
  const t: Terms = { ...terms, prices: [{ price_id: '1', price_minor: 350, from: iso('01T00:00:00') }, { price_id: '2', price_minor: 400, from: iso('02T00:00:00') }, { price_id: '3', price_minor: 500, from: iso('03T00:00:00') }] }
  const began = at('01T23:00:00')
  expect(costOf(t, 3600, began)).toBe(2380)
  expect(costOf(t, 2 * 3600, began)).toBe(2380 + 2720)
  expect(costOf(t, 26 * 3600, began)).toBe(2380 + 24 * 2720 + 3400)
  expect(costOf(t, 1801, at('01T23:30:00.5'))).toBe(Math.floor((1799 * 350 + 2 * 400) * 8 * 0.85 / 3600))
  expect([hourOf(t, at('01T12:00:00')), hourOf(t, at('02T00:00:00')), hourOf(t, at('09T00:00:00'))]).toEqual([2380, 2720, 3400])
  expect(nextPrice(t, at('02T00:00:00'))?.price_minor).toBe(500)
  expect(nextPrice(t, at('03T00:00:00'))).toBeUndefined()
  expect(whyFree({ ...t, price_minor: 0 })).toBeUndefined()
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
