import { expect, it } from 'vitest'
import { daysOf, hours, inWords, isMonth, monthOf, monthsBefore, partsBy, plus, spanOf, whole, type Line } from './usage'

const line = (of: Partial<Line>): Line => ({ allocations: 1, seconds: 3600, unit_seconds: 28_800, cost_minor: 0, not_charged_minor: 0, relief_minor: 0, corrections_minor: 0, net_minor: 0, ...of })

const lines = [
  line({ project_id: 'p1', project: 'training', sku: 'h200', day: '2026-03-01', currency: 'USD', cost_minor: 2800, relief_minor: 300, net_minor: 2500 }),
  line({ project_id: 'p1', project: 'training', sku: 'cpu', day: '2026-03-02', currency: 'USD', cost_minor: 100, corrections_minor: 40, net_minor: 60 }),
  line({ project_id: 'p2', project: 'inference', sku: 'h200', day: '2026-03-02', currency: 'USD', cost_minor: 5000, net_minor: 5000 }),
  line({ project_id: 'p2', project: 'inference', sku: 'h200', day: '2026-03-02' }), // rented before there was an account
]

it('sums up, and the parts are the whole', () => {
  const all = whole(lines)
  expect(all).toMatchObject({ net: { USD: 7560 }, cost: { USD: 7900 }, back: { USD: 340 }, unitSeconds: 115_200 })
  expect(all.net).toEqual({ USD: 7560 }) // what has no currency costs nothing, in none
  for (const by of [(l: Line) => ({ key: l.project_id }), (l: Line) => ({ key: l.sku }), (l: Line) => ({ key: l.day })]) {
    const parts = partsBy(lines, by)
    expect(parts.reduce((sum, p) => sum + (p.net.USD ?? 0), 0)).toBe(7560)
    expect(parts.reduce((sum, p) => sum + p.unitSeconds, 0)).toBe(115_200)
  }
})

it('shows the dearest first, by name', () => {
  expect(partsBy(lines, (l) => ({ key: l.project_id, name: l.project })).map((p) => [p.name, inWords(p.net)])).toEqual([
    ['inference', '50.00 USD'],
    ['training', '25.60 USD'],
  ])
})

it('never adds two currencies', () => {
  const parts = partsBy([...lines, line({ project_id: 'p1', currency: 'EUR', net_minor: 5 })], () => ({ key: 'all' }))
  expect(parts.map((p) => inWords(p.net))).toEqual(['75.60 USD + 0.05 EUR'])
  expect(plus({ USD: 1 }, { USD: 2, EUR: 3 })).toEqual({ USD: 3, EUR: 3 })
})

it('writes nothing as nothing', () => {
  expect(inWords({})).toBe('nothing')
  expect(inWords({ USD: 0 })).toBe('0.00 USD')
  expect(hours(115_200)).toBe('32')
  expect(hours(5_400)).toBe('1.5')
})

it('has every day of a month in UTC', () => {
  const days = daysOf(lines, '2026-03-01T00:00:00Z', '2026-03-04T00:00:00Z')
  expect(days.map((d) => [d.key, d.net.USD])).toEqual([
    ['2026-03-01', 2500],
    ['2026-03-02', 5060],
    ['2026-03-03', undefined],
  ])
})

it('knows months', () => {
  expect(monthOf(Date.parse('2026-02-28T23:59:59Z'))).toBe('2026-02')
  expect(spanOf('2026-12')).toEqual({ from: '2026-12-01T00:00:00.000Z', to: '2027-01-01T00:00:00.000Z' })
  expect(monthsBefore(Date.parse('2026-01-31T12:00:00Z'), 3)).toEqual(['2026-01', '2025-12', '2025-11'])
  expect([isMonth('2026-03'), isMonth('2026-13'), isMonth(undefined), isMonth('yes')]).toEqual([true, false, false, false])
})
