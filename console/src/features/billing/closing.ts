import { monthOf, monthsBefore } from './usage'

/** monthToClose is the month that is closed next: the one after the newest statement, or the last one; undefined: none is over. */
export function monthToClose(closedUntil: string | undefined, now: string): string | undefined {
  const next = closedUntil ? monthOf(Date.parse(closedUntil)) : monthsBefore(Date.parse(`${now}-01T00:00:00Z`), 2)[1]
  return next && next < now ? next : undefined
}

/** statementFiles are the forms of a statement, and where the control plane has them. */
export const statementFiles = (s: { org_id: string; statement_id: string }) =>
  [
    { name: 'HTML', form: '/html' },
    { name: 'CSV', form: '/csv' },
    { name: 'JSON', form: '' },
    { name: 'FOCUS', form: '/focus' },
  ].map(({ name, form }) => ({ name, href: `/api/v1/tenants/${s.org_id}/statements/${s.statement_id}${form}` }))
