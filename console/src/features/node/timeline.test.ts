import { describe, expect, it } from 'vitest'
import { after, before, segments, spent, stretches, within, type Change } from './timeline'

const minute = 60_000
const start = Date.parse('2026-03-01T12:00:00Z')

function change(minutes: number, to?: string): Change {
  return { occurred_at: new Date(start + minutes * minute).toISOString(), to_status: to, cause: `at ${minutes}` } as Change
}

// Newest first, as the control plane answers.
const history = [change(90, 'active'), change(70), change(60, 'offline'), change(10, 'active'), change(0, 'enrolling')]
const now = start + 100 * minute

describe('stretches', () => {
  it('are the states in their order, the last until now', () => {
    expect(stretches(history, now, 'active').map((s) => [s.status, (s.to - s.from) / minute])).toEqual([
      ['enrolling', 10],
      ['active', 50],
      ['offline', 30],
      ['active', 10],
    ])
  })

  it('begin with the state that the first change of state ended', () => {
    const moved = { ...change(10, 'active'), from_status: 'enrolling' } as Change
    expect(stretches([moved, change(4), change(0)], now, 'active').map((s) => [s.status, (s.to - s.from) / minute])).toEqual([
      ['enrolling', 10],
      ['active', 90],
    ])
  })

  it('are one when the state never changed, and none when nothing is known', () => {
    expect(stretches([change(40), change(5)], now, 'enrolling').map((s) => [s.status, (s.to - s.from) / minute])).toEqual([['enrolling', 95]])
    expect(stretches([], now, 'active')).toEqual([])
  })
})

describe('segments', () => {
  it('fill the bar, and show what was short', () => {
    const drawn = segments(stretches([change(1000, 'active'), change(0.01, 'offline'), change(0, 'active')], start + 2000 * minute, 'active'))
    expect(drawn.reduce((sum, s) => sum + s.width, 0)).toBeCloseTo(100)
    expect(drawn[0]?.width).toBeGreaterThan(0.5)
    expect(drawn[1]?.left).toBeCloseTo(drawn[0]?.width ?? 0)
  })
})

describe('within', () => {
  it('cuts what spans the beginning', () => {
    const cut = within(stretches(history, now, 'active'), start + 70 * minute)
    expect(cut.map((s) => s.status)).toEqual(['offline', 'active'])
    expect(cut[0]?.from).toBe(start + 70 * minute)
  })
})

describe('spent', () => {
  it('sums by state', () => {
    expect(spent(stretches(history, now, 'active'))).toEqual([
      { status: 'active', seconds: 3600 },
      { status: 'offline', seconds: 1800 },
      { status: 'enrolling', seconds: 600 },
    ])
  })
})

describe('steps', () => {
  it('lead to the changes next to a moment', () => {
    const at = start + 65 * minute
    expect(before(history, at)?.cause).toBe('at 60')
    expect(after(history, at)?.cause).toBe('at 70')
    expect(before(history, start)).toBeUndefined()
    expect(after(history, now)).toBeUndefined()
  })
})
