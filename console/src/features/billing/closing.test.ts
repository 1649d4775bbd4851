import { expect, it } from 'vitest'
import { monthToClose, statementFiles } from './closing'

it('closes the first month that is open, once it is over', () => {
  const opened = '2025-12-31T23:59:59Z'
  expect(monthToClose('2026-02-01T00:00:00Z', opened, '2026-03')).toBe('2026-02')
  expect(monthToClose('2026-03-01T00:00:00Z', opened, '2026-03')).toBeUndefined()
  expect(monthToClose(undefined, opened, '2026-03')).toBe('2025-12')
  expect(monthToClose(undefined, opened, '2025-12')).toBeUndefined()
})

it('knows the files of a statement', () => {
  expect(statementFiles({ org_id: 'o', statement_id: 's' }).map((f) => `${f.name} ${f.href}`)).toEqual([
    'HTML /api/v1/tenants/o/statements/s/html',
    'CSV /api/v1/tenants/o/statements/s/csv',
    'JSON /api/v1/tenants/o/statements/s',
    'FOCUS /api/v1/tenants/o/statements/s/focus',
  ])
})
