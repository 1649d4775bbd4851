import { expect, it } from 'vitest'
import { monthToClose, statementFiles } from './closing'

it('closes the first month that is open, once it is over', () => {
  expect(monthToClose('2026-02-01T00:00:00Z', '2026-03')).toBe('2026-02')
  expect(monthToClose('2026-03-01T00:00:00Z', '2026-03')).toBeUndefined()
  expect(monthToClose(undefined, '2026-01')).toBe('2025-12')
})

it('knows the files of a statement', () => {
  expect(statementFiles({ org_id: 'o', statement_id: 's' }).map((f) => `${f.name} ${f.href}`)).toEqual([
    'HTML /api/v1/tenants/o/statements/s/html',
    'CSV /api/v1/tenants/o/statements/s/csv',
    'JSON /api/v1/tenants/o/statements/s',
    'FOCUS /api/v1/tenants/o/statements/s/focus',
  ])
})
