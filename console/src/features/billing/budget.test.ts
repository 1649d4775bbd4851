import { expect, it } from 'vitest'
import { budgetDraft, budgetOf, budgetTone, budgetWords, marksOf, type Budget } from './budget'

const budget: Budget = {
  project_id: 'p', org_id: 'o', currency: 'USD', amount_minor: 500_000, period: 'month', period_start: '2026-03-01T00:00:00Z', period_end: '2026-04-01T00:00:00Z', spent_minor: 410_000, spent_percent: 82,
  aside_minor: 0, forecast_minor: 620_000, alerts: [50, 80, 100], told: [{ percent: 50, told_at: '2026-03-02T00:00:00Z' }], hard_stop: true, version: 1, updated_at: '2026-03-01T00:00:00Z', updated_by: 'u',
}

it('reads a budget as it is written', () => {
  expect(budgetDraft(budget)).toEqual({ amount: '5000.00', alerts: '50, 80, 100', hardStop: true })
  expect(budgetOf(budgetDraft(budget), 'USD')).toEqual({ body: { amount_minor: 500_000, currency: 'USD', period: 'month', alerts: [50, 80, 100], hard_stop: true }, wrong: {}, ready: true })
  expect(budgetOf({ amount: '1', alerts: '100 % 50;50', hardStop: false }, 'JPY').body).toEqual({ amount_minor: 1, currency: 'JPY', period: 'month', alerts: [50, 100], hard_stop: false })
  expect(budgetOf({ amount: '1', alerts: '', hardStop: false }, 'USD').ready).toBe(true)
})

it('says what is wrong with a budget', () => {
  for (const amount of ['0', '-1', '1.005', 'x']) {
    const { ready, wrong } = budgetOf({ amount, alerts: '', hardStop: false }, 'USD')
    expect(ready, amount).toBe(false)
    expect(wrong.amount, amount).toBeTruthy()
  }
  expect(budgetOf({ amount: '', alerts: '', hardStop: false }, 'USD')).toMatchObject({ ready: false, wrong: { amount: undefined } })
  for (const alerts of ['0', '1001', 'x', '1.5', '-5', '1 2 3 4 5 6 7 8 9 10 11']) {
    const { ready, wrong } = budgetOf({ amount: '1', alerts, hardStop: false }, 'USD')
    expect(ready, alerts).toBe(false)
    expect(wrong.alerts, alerts).toBeTruthy()
  }
})

it('says how a budget stands', () => {
  expect(budgetTone(budget)).toBe('warn')
  expect(budgetTone({ ...budget, forecast_minor: 500_000 })).toBe('ok')
  expect(budgetTone({ ...budget, spent_minor: 500_000 })).toBe('bad')
  expect(budgetWords({ ...budget, spent_minor: 500_000 })).toContain('new requests are refused')
  expect(budgetWords({ ...budget, spent_minor: 500_000, hard_stop: false })).toContain('Nothing is stopped')
})

it('puts alerts on the bar', () => {
  expect(marksOf(budget)).toEqual({ filled: 82, marks: [{ percent: 50, at: 50, told: true }, { percent: 80, at: 80, told: false }, { percent: 100, at: 100, told: false }] })
  expect(marksOf({ ...budget, alerts: [200] })).toEqual({ filled: 41, marks: [{ percent: 200, at: 100, told: false }] })
  expect(marksOf({ ...budget, spent_minor: 5_000_000 }).filled).toBe(100)
  expect(marksOf({ ...budget, spent_minor: -5 }).filled).toBe(0)
})
