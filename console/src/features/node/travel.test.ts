import { describe, expect, it } from 'vitest'
import { askedAt, hourAgo, inputOf, momentOf, positionOf, steps, typed } from './travel'

const from = Date.parse('2026-03-01T00:00:00Z')
const to = from + 10 * 3600_000

describe('the slider', () => {
  it('goes from the beginning to now', () => {
    expect(positionOf(from, from, to)).toBe(0)
    expect(positionOf(to, from, to)).toBe(steps)
    expect(momentOf(0, from, to)).toBe(from)
    expect(momentOf(steps, from, to)).toBe(to)
    expect(positionOf(momentOf(250, from, to), from, to)).toBe(250)
  })

  it('stays within', () => {
    expect(positionOf(from - 1, from, to)).toBe(0)
    expect(momentOf(steps + 5, from, to)).toBe(to)
    expect(positionOf(from, from, from)).toBe(steps)
  })
})

describe('hourAgo', () => {
  it('is not before the node', () => {
    expect(hourAgo('2026-03-01T00:00:00Z', to)).toBe(new Date(to - 3_600_000).toISOString())
    expect(Date.parse(hourAgo('2026-03-01T09:30:00.123456Z', to))).toBeGreaterThan(Date.parse('2026-03-01T09:30:00.123Z'))
  })
})

describe('the input', () => {
  it('says the same moment, to the minute', () => {
    const at = new Date(2026, 2, 9, 4, 5).getTime()
    expect(inputOf(at)).toBe('2026-03-09T04:05')
    expect(typed(inputOf(at))).toBe(at)
    expect(typed('')).toBeUndefined()
  })
})

describe('askedAt', () => {
  it('takes a moment and nothing else', () => {
    expect(askedAt('2026-03-01T00:00:00Z')).toBe('2026-03-01T00:00:00Z')
    expect(askedAt('yesterday')).toBeUndefined()
    expect(askedAt(undefined)).toBeUndefined()
  })

  it('does not take the future for the past', () => {
    expect(askedAt('2026-03-01T00:00:01Z', from)).toBeUndefined()
    expect(askedAt('2026-03-01T00:00:00Z', from)).toBe('2026-03-01T00:00:00Z')
  })
})
