import type { Schemas } from '../../api/client'

export type Terms = Pick<Schemas['AccountTermsView'], 'basis' | 'price_minor' | 'paid_share' | 'units' | 'currency'>
type Times = Pick<Schemas['AllocationView'], 'active_at' | 'release_requested_at'>
type Running = Times & Pick<Schemas['AllocationView'], 'expires_at'>

// Ten-thousandths, and seconds of an hour.
const perHour = 3600n * 10_000n

const rate = (t: Terms) => (t.basis === 'priced' ? BigInt(t.price_minor) * BigInt(t.paid_share) * BigInt(t.units) : 0n)

/** costOf is what so many seconds cost, in minor units, as the ledger reckons: whole seconds, and what is left of a minor unit is cut off. */
export const costOf = (t: Terms, seconds: number): number => Number((rate(t) * BigInt(Math.max(0, Math.floor(seconds)))) / perHour)

/** hourOf is what an hour costs, in minor units; a part of one counts as a whole. */
export const hourOf = (t: Terms): number => Number((rate(t) + 9_999n) / 10_000n)

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
  return costOf(t, before + Math.max(0, (end - now) / 1000)) - costOf(t, before)
}

/** whyFree says why nothing is charged; undefined: something is. */
export function whyFree(t: Pick<Schemas['AccountTermsView'], 'basis' | 'free_because' | 'price_minor' | 'paid_share'>): string | undefined {
  if (t.basis === 'free_project') return `free of charge: the project pays nothing${t.free_because ? ` (${t.free_because})` : ''}`
  if (t.basis === 'no_account') return 'free of charge: the tenant had no billing account when it was rented'
  return t.price_minor === 0 || t.paid_share === 0 ? 'free of charge: its price is zero' : undefined
}
