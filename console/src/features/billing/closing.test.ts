import { expect, it } from 'vitest'
import { monthToClose } from './closing'

it('closes the first month that is open, once it is over', () => {
  expect(monthToClose('2026-02-01T00:00:00Z', '2026-03')).toBe('2026-02')
  expect(monthToClose('2026-03-01T00:00:00Z', '2026-03')).toBeUndefined()
  expect(monthToClose(undefined, '2026-01')).toBe('2025-12')
})
