import { monthOf } from './usage'

/** monthToClose is the month that is closed next: the one after the newest statement, or the one in which the account was opened; undefined: it is not over. */
export function monthToClose(closedUntil: string | undefined, openedAt: string, now: string): string | undefined {
  const next = monthOf(Date.parse(closedUntil ?? openedAt))
  return next < now ? next : undefined
}

/** statementFiles are the forms of a statement, and where the control plane has them. */
export const statementFiles = (s: { org_id: string; statement_id: string }) =>
  [
    { name: 'HTML', form: '/html' },
    { name: 'CSV', form: '/csv' },
    { name: 'JSON', form: '' },
    { name: 'FOCUS', form: '/focus' },
  ].map(({ name, form }) => ({ name, href: `/api/v1/tenants/${s.org_id}/statements/${s.statement_id}${form}` }))
