import type { Schemas } from '../../api/client'

export type Terms = Pick<Schemas['AccountTermsView'], 'basis' | 'price_minor' | 'paid_share' | 'units' | 'currency' | 'prices'>
type Times = Pick<Schemas['AllocationView'], 'active_at' | 'release_requested_at'>
type Running = Times & Pick<Schemas['AllocationView'], 'expires_at'>

// Ten-thousandths, and seconds of an hour.
const perHour = 3600n * 10_000n

const share = (t: Terms) => (t.basis === 'priced' ? BigInt(t.paid_share) * BigInt(t.units) : 0n)

/** priceAt is what a unit costs for an hour at a moment: what was agreed, or what the list says that the terms follow. */
export const priceAt = (t: Pick<Terms, 'price_minor' | 'prices'>, at: number): number => t.prices?.findLast((p) => Date.parse(p.from) <= at)?.price_minor ?? t.price_minor

/** nextPrice is the price that the list has next. */
export const nextPrice = (t: Pick<Terms, 'prices'>, now: number) => t.prices?.find((p) => Date.parse(p.from) > now)

/** costOf is what so many seconds from a beginning cost, in minor units, as the ledger reckons: whole seconds, each at its price, and what is left of a minor unit is cut off. */
export function costOf(t: Terms, seconds: number, began: number): number {
  const whole = Math.max(0, Math.floor(seconds))
  const origin = Math.ceil(began / 1000) * 1000
  const prices = t.prices?.length ? t.prices : [{ from: '', price_minor: t.price_minor }]
  const reached = (i: number) => (i === 0 ? 0 : Math.min(whole, Math.max(0, Math.ceil((Date.parse(prices[i]?.from ?? '') - origin) / 1000))))
  const sum = prices.reduce((sum, p, i) => sum + BigInt(p.price_minor) * BigInt((i + 1 < prices.length ? reached(i + 1) : whole) - reached(i)), 0n)
  return Number((sum * share(t)) / perHour)
}

/** hourOf is what an hour costs now, in minor units; a part of one counts as a whole. */
export const hourOf = (t: Terms, now: number): number => Number((BigInt(priceAt(t, now)) * share(t) + 9_999n) / 10_000n)

/** heldFor is how many seconds of an allocation are charged: from the moment it was ready to the request for its end. */
export function heldFor(a: Times, now: number): number {
  if (!a.active_at) return 0
  const end = a.release_requested_at ? Date.parse(a.release_requested_at) : now
  return Math.max(0, Math.floor((end - Date.parse(a.active_at)) / 1000))
}

/** costToCome is what an allocation will cost from now until a time, if nobody ends it before it ends by itself. */
export function costToCome(a: Running, t: Terms, now: number, until: number): number {
  if (!a.active_at || a.release_requested_at) return 0
  const end = Math.min(until, a.expires_at ? Date.parse(a.expires_at) : until)
  const before = heldFor(a, now)
  const began = Date.parse(a.active_at)
  return costOf(t, before + Math.max(0, (end - now) / 1000), began) - costOf(t, before, began)
}

/** whyFree says why nothing is charged; undefined: something is. */
export function whyFree(t: Pick<Schemas['AccountTermsView'], 'basis' | 'free_because' | 'price_minor' | 'paid_share' | 'prices'>): string | undefined {
  if (t.basis === 'free_project') return `free of charge: the project pays nothing${t.free_because ? ` (${t.free_because})` : ''}`
  if (t.basis === 'no_account') return 'free of charge: the tenant had no billing account when it was rented'
  const free = (t.prices ?? [t]).every((p) => p.price_minor === 0)
  return free || t.paid_share === 0 ? 'free of charge: its price is zero' : undefined
}
