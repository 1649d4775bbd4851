import { monthOf, monthsBefore } from './usage'

/** monthToClose is the month that is closed next: the one after the newest statement, or the last one; undefined: none is over. */
export function monthToClose(closedUntil: string | undefined, now: string): string | undefined {
  const next = closedUntil ? monthOf(Date.parse(closedUntil)) : monthsBefore(Date.parse(`${now}-01T00:00:00Z`), 2)[1]
  return next && next < now ? next : undefined
}
