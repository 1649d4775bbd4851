import { expect, it } from 'vitest'
import { beginOf, mayWithdraw, stands } from './price'

const now = Date.parse('2026-03-10T12:00:00Z')

it('knows where a price is in its life', () => {
  const past = { in_force: false, valid_from: '2026-01-01T00:00:00Z' }
  const current = { in_force: true, valid_from: '2026-03-01T00:00:00Z' }
  const coming = { in_force: false, valid_from: '2026-04-01T00:00:00Z' }
  expect([past, current, coming].map((p) => stands(p, now).word)).toEqual(['ended', 'in force', 'upcoming'])
  expect([past, current, coming].map((p) => mayWithdraw(p, now))).toEqual([false, false, true])
})

it('reads when a price begins', () => {
  expect(beginOf('', now)).toEqual({})
  expect(beginOf('2026-04-01T00:00Z', now)).toEqual({ at: '2026-04-01T00:00:00.000Z' })
  expect(beginOf('2026-03-10T11:59Z', now).wrong).toContain('in the future')
  expect(beginOf('soon', now).wrong).toBeTruthy()
})
