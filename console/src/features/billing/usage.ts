import type { Schemas } from '../../api/client'
import { money } from '../../ui/money'

export type Line = Schemas['StatementUsageLine']

/** Sums are minor units by currency: amounts of two currencies are never added. */
export type Sums = Record<string, number>

/** Part is what one project, SKU, tenant or day used and costs. */
export type Part = { key: string; name: string; net: Sums; cost: Sums; back: Sums; unused: Sums; unitSeconds: number }

function add(to: Sums, currency: string | undefined, minor: number) {
  if (currency) to[currency] = (to[currency] ?? 0) + minor
}

const largest = (p: Part) => Math.max(0, ...Object.values(p.net))

const blank = (key: string, name: string): Part => ({ key, name, net: {}, cost: {}, back: {}, unused: {}, unitSeconds: 0 })

function count(part: Part, l: Line) {
  add(part.net, l.currency, l.net_minor)
  add(part.cost, l.currency, l.cost_minor)
  add(part.back, l.currency, l.relief_minor + l.corrections_minor)
  if (l.unused_minor) add(part.unused, l.currency, l.unused_minor)
  part.unitSeconds += l.unit_seconds
}

/** whole is all lines together. */
export function whole(lines: Line[]): Part {
  const part = blank('', '')
  for (const l of lines) count(part, l)
  return part
}

/** partsBy sums lines up, the dearest first. */
export function partsBy(lines: Line[], of: (l: Line) => { key?: string; name?: string }): Part[] {
  const parts = new Map<string, Part>()
  for (const l of lines) {
    const { key = '', name = key } = of(l)
    const part = parts.get(key) ?? blank(key, name || '–')
    parts.set(key, part)
    count(part, l)
  }
  return [...parts.values()].sort((a, b) => largest(b) - largest(a) || b.unitSeconds - a.unitSeconds || a.name.localeCompare(b.name))
}

/** daysOf is every day of a time in UTC, also those on which nothing was used; its end does not belong to it. */
export function daysOf(lines: Line[], from: string, to: string): Part[] {
  const parts = new Map(partsBy(lines, (l) => ({ key: l.day })).map((p) => [p.key, p]))
  const days: Part[] = []
  for (let at = Date.parse(from); at < Date.parse(to); at += 86_400_000) {
    const day = new Date(at).toISOString().slice(0, 10)
    days.push(parts.get(day) ?? blank(day, day))
  }
  return days
}

/** inWords writes sums; amounts of several currencies stand side by side. */
export function inWords(sums: Sums): string {
  const amounts = Object.entries(sums).filter(([, minor]) => minor !== 0)
  if (amounts.length > 0) return amounts.map(([currency, minor]) => money(minor, currency)).join(' + ')
  const [currency] = Object.keys(sums)
  return currency ? money(0, currency) : 'nothing'
}

/** hours writes the seconds of GPUs, or of machines without, as hours. */
export const hours = (unitSeconds: number) => (unitSeconds / 3600).toLocaleString('en', { maximumFractionDigits: 1 })

/** plus adds what is in both. */
export function plus(a: Sums, b: Sums): Sums {
  const out = { ...a }
  for (const [currency, minor] of Object.entries(b)) add(out, currency, minor)
  return out
}

/** A month in UTC, as 2026-03. */
export const monthOf = (at: number) => new Date(at).toISOString().slice(0, 7)

/** spanOf is a month as the API takes it: its end does not belong to it. */
export function spanOf(month: string): { from: string; to: string } {
  const [year = 0, m = 1] = month.split('-').map(Number)
  return { from: new Date(Date.UTC(year, m - 1, 1)).toISOString(), to: new Date(Date.UTC(year, m, 1)).toISOString() }
}

/** monthsBefore are the months that can be looked at, the newest first. */
export function monthsBefore(now: number, many = 12): string[] {
  const at = new Date(now)
  return Array.from({ length: many }, (_, i) => monthOf(Date.UTC(at.getUTCFullYear(), at.getUTCMonth() - i, 1)))
}

/** isMonth says whether an address names a month. */
export const isMonth = (text: string | undefined): text is string => /^\d{4}-(0[1-9]|1[0-2])$/.test(text ?? '')
