import { expect, it } from 'vitest'
import type { Schemas } from '../../api/client'
import { burnOf, chargedOf, forecastOf, unusedBurnOf, type Reserved } from './forecast'
import type { Running } from './queries'
import type { Terms } from './terms'

const terms: Terms = { basis: 'priced', price_minor: 350, paid_share: 10_000, units: 8, currency: 'USD' }
const allocation = (of: Partial<Running['allocation']>) => ({ active_at: '2026-03-01T00:00:00Z', ...of }) as Running['allocation']
const now = Date.parse('2026-03-31T14:00:00Z')
const end = Date.parse('2026-04-01T00:00:00Z')

it('adds up what runs', () => {
  expect(burnOf([], [], now)).toEqual({})
  expect(burnOf([{ allocation: allocation({}), terms }, { allocation: allocation({}), terms: { ...terms, paid_share: 5_000 } }], [], now)).toEqual({ USD: 4_200 })
  expect(burnOf([{ allocation: allocation({}), terms: { ...terms, basis: 'no_account', currency: undefined } }], [], now)).toEqual({})
})

it('forecasts the month: what it costs so far, and what is to come', () => {
  const running = [
    { allocation: allocation({}), terms }, // ten hours
    { allocation: allocation({ expires_at: '2026-03-31T15:00:00Z' }), terms }, // one hour
    { allocation: allocation({}), terms: { ...terms, basis: 'free_project' as const } },
  ]
  expect(forecastOf({ USD: 100 }, running, [], now, end)).toEqual({ USD: 100 + 28_000 + 2_800 })
  expect(forecastOf({ USD: 100 }, [], [], now, end)).toEqual({ USD: 100 })
  expect(forecastOf({}, running, [], end, end)).toEqual({ USD: 0 })
})

// Two of its nodes are not used: 2 × 8 × 1.50 an hour, less ten percent.
const kept: Reserved = { ends_at: '2026-04-20T00:00:00Z', charge: { currency: 'USD', price_minor: 150, paid_share: 9_000, units: 8, unused_nodes: 2, burn_minor_per_hour: 2_160, cost_minor: 5 } }

it('adds what is reserved and not used', () => {
  expect(unusedBurnOf([kept], now)).toEqual({ USD: 2_160 })
  expect(burnOf([{ allocation: allocation({}), terms }], [kept], now)).toEqual({ USD: 2_800 + 2_160 })
  expect(burnOf([], [{ ...kept, charge: { ...kept.charge, unused_nodes: 0 } }], now)).toEqual({ USD: 0 })
  const soon = { ...kept, ends_at: '2026-03-31T15:30:00Z' }
  expect(forecastOf({ USD: 100 }, [{ allocation: allocation({}), terms }], [kept, soon], now, end)).toEqual({ USD: 100 + 28_000 + 10 * 2_160 + 3_240 })
  expect(forecastOf({ USD: 100 }, [], [{ ...kept, ends_at: '2026-03-31T13:00:00Z' }], now, end)).toEqual({ USD: 100 })
})

it('takes reservations that are charged, and of a project only its own', () => {
  const all = [{ project_id: 'a' }, { charge: kept.charge, project_id: 'a', ends_at: '1' }, { charge: kept.charge, project_id: 'b', ends_at: '2' }, { charge: kept.charge, ends_at: '3' }] as Schemas['ReservationView'][]
  expect(chargedOf(all).map((r) => r.ends_at)).toEqual(['1', '2', '3'])
  expect(chargedOf(all, 'a').map((r) => r.ends_at)).toEqual(['1'])
})
