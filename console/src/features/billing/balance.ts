import type { Schemas } from '../../api/client'
import { statesOf } from '../../api/states'
import { readLife, writeLife } from '../../ui/life'
import { minorOf, money } from '../../ui/money'
import { span } from '../../ui/time'
import type { Tone } from '../../ui/tone'

export type Balance = Schemas['BalanceView']
export type Limits = Schemas['BalanceBody']

/** standing is how a tenant stands, for a note at the top; undefined: there is nothing to say. */
export function standing(b: Pick<Balance, 'status'>): { tone: Tone; title: string; text: string } | undefined {
  const tone = statesOf('balance').find((s) => s.name === b.status)?.tone ?? 'warn'
  switch (b.status) {
    case 'low':
      return { tone, title: 'The balance is low', text: 'Nothing stops yet. Ask an operator to add money, or release allocations that you do not need.' }
    case 'auto_release_pending':
      return { tone, title: 'The balance is almost used up, and allocations will be released', text: 'To prevent this, ask an operator to add money, or release allocations that you do not need.' }
    case 'depleted':
      return { tone, title: 'The balance is used up: you cannot rent anything new', text: 'gpuaas releases allocations, newest first and protected ones last, until money is added.' }
    default:
      return undefined
  }
}

/** runwayWords says how long what is available lasts. */
export function runwayWords(b: Pick<Balance, 'runway_hours' | 'available_minor'>): string {
  if (b.available_minor === undefined) return 'unlimited: there is no credit limit'
  return b.runway_hours === undefined ? 'unlimited: nothing that costs money is running' : span(b.runway_hours * 3600)
}

/** payWords says how a tenant pays, and how far below zero it may go. */
export function payWords(b: Pick<Balance, 'payment' | 'credit_line_minor' | 'currency'>): string {
  const line = b.credit_line_minor === undefined ? 'without limit' : b.credit_line_minor === 0 ? 'never below zero' : `down to ${money(-b.credit_line_minor, b.currency)}`
  return `${b.payment === 'prepaid' ? 'prepaid' : 'postpaid'}, ${line}`
}

/** Draft is what the form of limits has. */
export type Draft = { payment: Balance['payment']; line: string; lowAmount: string; low: string; release: string; grace: string; end: boolean }

/** draftOf is the form as the limits are now. */
export function draftOf(b: Balance): Draft {
  const amount = (minor: number | undefined) => (minor === undefined ? '' : money(minor, b.currency).replace(/,| [A-Z]+$/g, ''))
  const time = (seconds: number) => (seconds === 0 ? '' : writeLife(seconds))
  return { payment: b.payment, line: amount(b.credit_line_minor), lowAmount: b.low_minor === 0 ? '' : amount(b.low_minor), low: time(b.low_seconds), release: time(b.release_seconds), grace: time(b.grace_seconds), end: false }
}

/** limitsOf reads the form as what is sent, or says what is wrong with it. What has no field stays as it is. */
export function limitsOf(d: Draft, b: Pick<Balance, 'currency' | 'rearm_percent'>): { body: Limits; wrong: Partial<Record<keyof Draft, string>>; ready: boolean } {
  const amount = (text: string): { minor?: number; wrong?: string } => (text.trim() === '' ? {} : minorOf(text, b.currency))
  const line = amount(d.line)
  const lowAmount = amount(d.lowAmount)
  const low = readLife(d.low, { least: 1 })
  const release = readLife(d.release, { least: 1 })
  const grace = readLife(d.grace, { least: 1, most: 2_592_000 })
  const late = (release.seconds ?? 0) > (low.seconds ?? 0) ? 'Not before the first warning.' : undefined
  const wrong = { line: line.wrong, lowAmount: lowAmount.wrong, low: low.wrong, release: release.wrong ?? late, grace: grace.wrong }
  const body: Limits = { payment: d.payment, credit_line_minor: line.minor, unlimited: (d.payment === 'postpaid' && line.minor === undefined) || undefined, release: d.end || undefined, low_minor: lowAmount.minor ?? 0, low_seconds: low.seconds ?? 0, release_seconds: release.seconds ?? 0, grace_seconds: grace.seconds ?? 0, rearm_percent: b.rearm_percent }
  return { body, wrong, ready: !Object.values(wrong).some(Boolean) }
}
