import type { Schemas } from '../../api/client'
import { minorOf, money } from '../../ui/money'
import type { Tone } from '../../ui/tone'

export type Budget = Schemas['BudgetView']
export type BudgetBody = Schemas['BudgetBody']

/** Draft is what the form of a budget has. */
export type BudgetDraft = { amount: string; alerts: string; hardStop: boolean }

/** budgetDraft is the form as the budget is now, or at the beginning. */
export const budgetDraft = (b?: Budget): BudgetDraft =>
  b ? { amount: money(b.amount_minor, b.currency).replace(/,| [A-Z]+$/g, ''), alerts: b.alerts.join(', '), hardStop: b.hard_stop } : { amount: '', alerts: '50, 80, 100', hardStop: false }

/** budgetOf reads the form as what is sent, or says what is wrong with it. */
export function budgetOf(d: BudgetDraft, currency: string): { body: BudgetBody; wrong: { amount?: string; alerts?: string }; ready: boolean } {
  const { minor, wrong } = minorOf(d.amount, currency)
  const words = d.alerts.split(/[\s,;%]+/).filter(Boolean)
  const alerts = [...new Set(words.map(Number))].sort((a, b) => a - b)
  const sound = words.every((w) => /^\d{1,4}$/.test(w)) && alerts.every((p) => p >= 1 && p <= 1000)
  const badAlerts = !sound ? 'Percentages from 1 to 1000, such as 50, 80, 100.' : alerts.length > 10 ? 'Ten percentages at most.' : undefined
  const badAmount = d.amount.trim() === '' ? undefined : (wrong ?? (minor === 0 ? 'More than nothing.' : undefined))
  return { body: { amount_minor: minor ?? 0, currency, period: 'month', alerts: sound ? alerts : [], hard_stop: d.hardStop }, wrong: { amount: badAmount, alerts: badAlerts }, ready: !!minor && !wrong && !badAlerts }
}

/** budgetTone says how a budget stands, as a colour. */
export function budgetTone(b: Pick<Budget, 'spent_minor' | 'amount_minor' | 'forecast_minor'>): Tone {
  if (b.spent_minor >= b.amount_minor) return 'bad'
  return b.forecast_minor > b.amount_minor ? 'warn' : 'ok'
}

/** budgetWords says how a budget stands, in words. */
export function budgetWords(b: Pick<Budget, 'spent_minor' | 'amount_minor' | 'forecast_minor' | 'hard_stop'>): string {
  if (b.spent_minor >= b.amount_minor) return b.hard_stop ? 'It is spent: new requests are refused. Running allocations continue.' : 'It is spent. Nothing is stopped.'
  if (b.forecast_minor > b.amount_minor) return 'At the current rate, the month will exceed it.'
  return 'At the current rate, the month stays within it.'
}

/** marksOf are where alerts lie on the bar, which ends with the amount or the last of them. */
export function marksOf(b: Pick<Budget, 'spent_minor' | 'amount_minor' | 'alerts' | 'told'>): { filled: number; marks: { percent: number; at: number; told: boolean }[] } {
  const spent = (b.spent_minor / b.amount_minor) * 100
  const end = Math.max(100, ...b.alerts)
  const marks = b.alerts.map((percent) => ({ percent, at: (percent / end) * 100, told: b.told.some((t) => t.percent === percent) }))
  return { filled: Math.min(100, Math.max(0, (spent / end) * 100)), marks }
}
