import { describe, expect, it } from 'vitest'
import { level, remaining } from './ahead'

describe('remaining', () => {
  it('keeps what was typed until the address says so', () => {
    const typed = { q: 'abc' }
    expect(remaining(typed, { q: 'a' })).toBe(typed) // the same, so that nothing is drawn for it
    expect(remaining(typed, { q: 'abc', tab: 'x' })).toBe(level)
    expect(remaining({ q: 'abc', site: 's' }, { q: 'abc' })).toEqual({ site: 's' })
  })

  it('takes what was emptied for what is left out', () => {
    expect(remaining({ q: '' }, {})).toBe(level)
    expect(remaining({ q: undefined }, {})).toBe(level)
    expect(remaining({ q: '' }, { q: 'a' })).toEqual({ q: '' })
    expect(remaining(level, { q: 'a' })).toBe(level)
  })
})
