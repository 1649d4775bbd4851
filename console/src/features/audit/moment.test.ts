import { describe, expect, it } from 'vitest'
import { toMoment } from './moment'

describe('toMoment', () => {
  it('reads local time', () => {
    expect(toMoment('2026-03-04T05:06')).toBe(new Date(2026, 2, 4, 5, 6).toISOString())
  })
  it('takes what is no time for no filter', () => {
    for (const text of [undefined, '', 'yesterday', '2026-13-40T99:00']) expect(toMoment(text)).toBeUndefined()
  })
})
