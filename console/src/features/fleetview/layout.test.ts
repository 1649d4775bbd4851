import { describe, expect, it } from 'vitest'
import { at, layout, moved } from './layout'
import { halls, type Spot } from './racks'

function hall(names: string[]) {
  const spots = names.map((hostname): Spot => ({ node_id: hostname, hostname, status: 'active', drift_state: 'in_sync', schedulable: true, region_code: 'r' }))
  const [only] = halls(spots, [])
  if (!only) throw new Error('no hall')
  return only
}

const many = (n: number) => hall(Array.from({ length: n }, (_, i) => `gpu-${String(i + 1).padStart(5, '0')}`))

describe('layout', () => {
  it('puts every node in a place of its own, within the width', () => {
    const l = layout(many(10_000), 1_000)
    expect(l.tiles).toHaveLength(10_000)
    expect(new Set(l.tiles.map((t) => `${t.x}/${t.y}`)).size).toBe(10_000)
    expect(Math.max(...l.tiles.map((t) => t.x + l.size))).toBeLessThanOrEqual(1_000)
    expect(Math.max(...l.tiles.map((t) => t.y + l.size))).toBeLessThanOrEqual(l.height)
  })

  it('is high when it is narrow', () => {
    expect(layout(many(500), 300).height).toBeGreaterThan(layout(many(500), 1_200).height)
  })

  it('finds the tile under a point', () => {
    const l = layout(many(100), 1_000)
    for (const i of [0, 47, 48, 99]) {
      const t = l.tiles[i]
      expect(at(l, (t?.x ?? 0) + l.size / 2, (t?.y ?? 0) + l.size / 2)).toBe(i)
    }
    expect(at(l, -10, -10)).toBe(-1)
  })
})

describe('moved', () => {
  const l = layout(many(100), 1_000)

  it('goes through the nodes and stops at the ends', () => {
    expect(moved(l, 0, 'ArrowRight')).toBe(1)
    expect(moved(l, 0, 'ArrowLeft')).toBe(0)
    expect(moved(l, 3, 'End')).toBe(99)
    expect(moved(l, 99, 'ArrowRight')).toBe(99)
    expect(moved(l, 5, 'a')).toBe(5)
  })

  it('goes down to the tile below and back up', () => {
    const below = moved(l, 0, 'ArrowDown')
    expect(l.tiles[below]?.x).toBe(l.tiles[0]?.x)
    expect(l.tiles[below]?.y).toBeGreaterThan(l.tiles[0]?.y ?? 0)
    expect(moved(l, below, 'ArrowUp')).toBe(0)
    expect(moved(l, 0, 'ArrowUp')).toBe(0)
  })
})
