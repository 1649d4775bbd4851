import { expect, it } from 'vitest'
import { burnOf, forecastOf } from './forecast'
import type { Running } from './queries'
import type { Terms } from './terms'

const terms: Terms = { basis: 'priced', price_minor: 350, paid_share: 10_000, units: 8, currency: 'USD' }
const allocation = (of: Partial<Running['allocation']>) => ({ active_at: '2026-03-01T00:00:00Z', ...of }) as Running['allocation']
const now = Date.parse('2026-03-31T14:00:00Z')
const end = Date.parse('2026-04-01T00:00:00Z')

it('adds up what runs', () => {
  expect(burnOf([], now)).toEqual({})
  expect(burnOf([{ allocation: allocation({}), terms }, { allocation: allocation({}), terms: { ...terms, paid_share: 5_000 } }], now)).toEqual({ USD: 4_200 })
  expect(burnOf([{ allocation: allocation({}), terms: { ...terms, basis: 'no_account', currency: undefined } }], now)).toEqual({})
})

it('forecasts the month: what it costs so far, and what is to come', () => {
  const running = [
    { allocation: allocation({}), terms }, // ten hours
    { allocation: allocation({ expires_at: '2026-03-31T15:00:00Z' }), terms }, // one hour
    { allocation: allocation({}), terms: { ...terms, basis: 'free_project' as const } },
  ]
  expect(forecastOf({ USD: 100 }, running, now, end)).toEqual({ USD: 100 + 28_000 + 2_800 })
  expect(forecastOf({ USD: 100 }, [], now, end)).toEqual({ USD: 100 })
  expect(forecastOf({}, running, end, end)).toEqual({ USD: 0 })
})
