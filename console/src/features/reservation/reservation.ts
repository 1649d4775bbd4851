import type { Schemas } from '../../api/client'
import { enums } from '../../api/gen/enums'
import { readLabels, given } from '../../ui/labels'
import { money } from '../../ui/money'
import type { Tone } from '../../ui/tone'

export type Reservation = Schemas['ReservationView']
export type Wish = Schemas['ReservationWishBody']
export type ReservationState = Reservation['state']

/** states are those that a reservation can be in. */
export const states = enums['ReservationView.state']

/** current is the states of what is kept now or will be. */
export const current: ReservationState[] = ['active', 'upcoming']

/** stateTone is the colour of a state; one that lacks nodes is not green. */
export function stateTone(r: Pick<Reservation, 'state' | 'short_by'>): Tone {
  if (r.state === 'active') return r.short_by > 0 ? 'warn' : 'ok'
  return r.state === 'upcoming' ? 'info' : 'idle'
}

/** mayCancel says whether there is something left to end. */
export const mayCancel = (r: Pick<Reservation, 'state'>) => current.includes(r.state)

/** shortOnes are the reservations that lack nodes now. */
export const shortOnes = <R extends Pick<Reservation, 'short_by'>>(all: R[]) => all.filter((r) => r.short_by > 0)

/** usage says how a reservation is used, in words. */
export function usage(r: Pick<Reservation, 'state' | 'used' | 'held' | 'short_by' | 'nodes'>): string {
  if (r.state !== 'active') return ''
  const parts = [`${r.used} rented`, `${r.held} kept free`]
  if (r.short_by > 0) parts.push(`${r.short_by} missing`)
  return parts.join(', ')
}

/** chargeWords says what a reservation costs. */
export function chargeWords(c: Reservation['charge']): string {
  if (!c) return 'no: it costs nothing'
  const discount = c.paid_share < 10_000 ? `, less ${(10_000 - c.paid_share) / 100} %` : ''
  return `${money(c.burn_minor_per_hour, c.currency)} an hour now, for ${c.unused_nodes} nodes that are not used (${money(c.price_minor, c.currency)} a GPU hour${discount}); ${money(c.cost_minor, c.currency)} until now`
}

/** Draft is what a form has of a reservation. */
export type Draft = { orgId: string; projectId: string; sku: string; nodes: string; from: string; until: string; region: string; rack: string; pool: string; labels: string; reason: string; force: boolean; charge?: boolean }

type Wrong = Partial<Record<'nodes' | 'from' | 'until' | 'labels', string>>

/** wishOf reads a form as what is sent, or says what is wrong with it. Times are those of the reader. */
export function wishOf(d: Draft, now: number): { body: Wish; wrong: Wrong; ready: boolean } {
  const nodes = Number(d.nodes)
  const starts = moment(d.from)
  const ends = moment(d.until)
  const { labels, wrong: wrongLabels } = readLabels(d.labels)
  const wrong: Wrong = {
    nodes: Number.isInteger(nodes) && nodes >= 1 && nodes <= 10_000 ? undefined : 'From 1 to 10000.',
    from: d.from && starts === undefined ? 'Not a time.' : undefined,
    until: ends !== undefined && ends <= Math.max(now, starts ?? now) ? 'After it begins, and in the future.' : undefined,
    labels: wrongLabels,
  }
  const body = {
    org_id: d.orgId,
    project_id: d.projectId || undefined,
    sku: d.sku,
    nodes,
    starts_at: starts === undefined ? undefined : new Date(starts).toISOString(),
    ends_at: ends === undefined ? '' : new Date(ends).toISOString(),
    region: d.region.trim() || undefined,
    rack: d.rack.trim() || undefined,
    pool: d.pool.trim() || undefined,
    node_labels: given(labels),
    reason: d.reason.trim() || undefined,
    force: d.force || undefined,
    charge: (d.charge && !d.force) || undefined,
  }
  return { body, wrong, ready: d.orgId !== '' && d.sku !== '' && ends !== undefined && !Object.values(wrong).some(Boolean) }
}

/** moment reads what a field for date and time has. */
function moment(text: string): number | undefined {
  const at = Date.parse(text)
  return Number.isNaN(at) ? undefined : at
}
