import type { Schemas } from '../../api/client'
import type { Running } from './queries'
import { costOf, costToCome, hourOf, type Terms } from './terms'
import { plus, type Sums } from './usage'

/** Reserved is a reservation that is charged for nodes of it that are not used. */
export type Reserved = { ends_at: string; charge: Schemas['ReservationChargeView'] }

/** chargedOf are the reservations that are charged, of a project only its own: those of the whole tenant belong to none. */
export const chargedOf = (all: Schemas['ReservationView'][], projectId?: string): Reserved[] => all.flatMap(({ charge, ends_at, project_id }) => (charge && (!projectId || project_id === projectId) ? [{ ends_at, charge }] : []))

/** unusedTerms is what was agreed for all nodes of a reservation that are not used now. */
const unusedTerms = ({ charge }: Reserved): Terms => ({ basis: 'priced', price_minor: charge.price_minor, paid_share: charge.paid_share, units: charge.units * charge.unused_nodes, currency: charge.currency })

/** unusedBurnOf is what an hour costs now for nodes that are reserved and not used. */
export const unusedBurnOf = (reserved: Reserved[], now: number): Sums => reserved.reduce<Sums>((sum, r) => plus(sum, { [r.charge.currency]: hourOf(unusedTerms(r), now) }), {})

/** burnOf is what an hour costs with all that is rented now, and with what is reserved and not used. */
export const burnOf = (running: Running[], reserved: Reserved[], now: number): Sums =>
  running.reduce<Sums>((sum, { terms }) => (terms.currency ? plus(sum, { [terms.currency]: hourOf(terms, now) }) : sum), unusedBurnOf(reserved, now))

/**
 * forecastOf is what a time will have cost at its end if what is rented now stays as it is, each until it ends by
 * itself, what is reserved and not used stays so until its end, and nothing else is rented: what it costs so far, and
 * what is to come.
 */
export const forecastOf = (soFar: Sums, running: Running[], reserved: Reserved[], now: number, until: number): Sums => {
  const kept = reserved.reduce<Sums>((sum, r) => plus(sum, { [r.charge.currency]: costOf(unusedTerms(r), (Math.min(until, Date.parse(r.ends_at)) - now) / 1000, now) }), soFar)
  return running.reduce<Sums>((sum, { allocation, terms }) => (terms.currency ? plus(sum, { [terms.currency]: costToCome(allocation, terms, now, until) }) : sum), kept)
}
