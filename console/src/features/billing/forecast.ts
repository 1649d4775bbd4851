import type { Running } from './queries'
import { costToCome, hourOf } from './terms'
import { plus, type Sums } from './usage'

/** burnOf is what an hour costs with all that is rented now. */
export const burnOf = (running: Running[], now: number): Sums => running.reduce<Sums>((sum, { terms }) => (terms.currency ? plus(sum, { [terms.currency]: hourOf(terms, now) }) : sum), {})

/**
 * forecastOf is what a time will have cost at its end if what is rented now stays as it is, each until it ends by
 * itself, and nothing else is rented: what it costs so far, and what is to come.
 */
export const forecastOf = (soFar: Sums, running: Running[], now: number, until: number): Sums =>
  running.reduce<Sums>((sum, { allocation, terms }) => (terms.currency ? plus(sum, { [terms.currency]: costToCome(allocation, terms, now, until) }) : sum), soFar)
