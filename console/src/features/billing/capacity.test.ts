import { expect, it } from 'vitest'
import { anHour, kindOf, percent, sorts, utilisation, type Counted } from './capacity'

const sku = { sku_id: 'h200', gpus_total: 8, price_minor: 350, price_currency: 'USD' }
const none = { bootstrap_issued: 0, enrolling: 0, active: 0, offline: 0, quarantined: 0, draining: 0, retired: 0, removing: 0 }
const counted: Counted = {
  all: { ...none, active: 10, quarantined: 2, offline: 1, enrolling: 1, retired: 5 },
  dirty: { ...none, active: 6, quarantined: 1 },
  held: { ...none, active: 1 },
}

it('sorts each node once', () => {
  const k = kindOf(sku, counted, 32)
  expect(k).toMatchObject({ there: 112, units: { rented: 32, dirty: 16, held: 8, idle: 24, quarantined: 16, offline: 8, moving: 8 } })
  expect(sorts.reduce((sum, s) => sum + k.units[s], 0)).toBe(k.there)
})

it('counts a rented node that is ill as rented', () => {
  for (const rented of [7, 8, 9]) {
    const k = kindOf(sku, counted, rented * 8)
    expect(sorts.reduce((sum, s) => sum + k.units[s], 0), String(rented)).toBe(k.there)
    expect(k.units.dirty).toBe(0)
  }
})

it('counts machines without GPUs', () => {
  expect(kindOf({ ...sku, gpus_total: 0 }, counted, 4)).toMatchObject({ there: 14, units: { rented: 4, idle: 3 } })
})

it('says what an hour would earn, each currency by itself', () => {
  const kinds = [kindOf(sku, counted, 32), kindOf({ ...sku, sku_id: 'cpu', gpus_total: 0, price_minor: 10, price_currency: 'EUR' }, counted, 4)]
  expect(anHour(kinds, 'idle')).toEqual({ USD: 8_400, EUR: 30 })
  expect(anHour([], 'idle')).toEqual({})
})

it('knows how much was rented of what is there', () => {
  const part = { key: 'h200', name: 'h200', net: {}, cost: {}, back: {}, unused: {}, unitSeconds: 28_800 }
  expect(utilisation(part, 16, 3_600)).toBe(0.5)
  expect(utilisation(undefined, 16, 3_600)).toBe(0)
  expect(utilisation(part, 0, 3_600)).toBeUndefined()
  expect(utilisation(part, 1, 3_600)).toBe(1) // there were more machines than there are now
  expect([percent(0.5), percent(undefined)]).toEqual(['50.0 %', '–'])
})
