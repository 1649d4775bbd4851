import type { Hall, Spot } from './racks'

/** A tile: a node and where it is drawn. */
export type Tile = { spot: Spot; x: number; y: number }
export type Label = { text: string; x: number; y: number }
export type Layout = { tiles: Tile[]; labels: Label[]; size: number; height: number; /** How wide a label may be. */ room: number }

const aisle = 10
const labelHeight = 16

/** The more nodes, the smaller the tiles: a site is seen as a whole. */
function sizeFor(total: number): number {
  if (total <= 200) return 20
  if (total <= 1_000) return 15
  if (total <= 3_000) return 11
  return 8
}

/** layout places the racks of a hall side by side, as many as the width takes, and their nodes in rows. */
export function layout(hall: Hall, width: number): Layout {
  const size = sizeFor(hall.total)
  const gap = size > 8 ? 2 : 1
  const step = size + gap
  const largest = Math.max(1, ...hall.racks.map((r) => r.spots.length))
  const columns = Math.min(12, Math.max(Math.ceil(100 / step), largest))
  const block = columns * step - gap
  const perShelf = Math.max(1, Math.floor((width + aisle) / (block + aisle)))
  const tiles: Tile[] = []
  const labels: Label[] = []
  let top = 0
  for (let shelf = 0; shelf < hall.racks.length; shelf += perShelf) {
    let rows = 0
    for (const [i, rack] of hall.racks.slice(shelf, shelf + perShelf).entries()) {
      const left = i * (block + aisle)
      labels.push({ text: rack.label, x: left, y: top + labelHeight - 5 })
      for (const [n, spot] of rack.spots.entries()) tiles.push({ spot, x: left + (n % columns) * step, y: top + labelHeight + Math.floor(n / columns) * step })
      rows = Math.max(rows, Math.ceil(rack.spots.length / columns))
    }
    top += labelHeight + rows * step + aisle - gap
  }
  return { tiles, labels, size, height: Math.max(0, top - aisle), room: block }
}

/** at is the tile under a point. */
export function at(l: Layout, x: number, y: number): number {
  return l.tiles.findIndex((t) => x >= t.x && x <= t.x + l.size && y >= t.y && y <= t.y + l.size)
}

/** moved is where a key leads from a tile; the same place when it leads nowhere. */
export function moved(l: Layout, from: number, key: string): number {
  const last = l.tiles.length - 1
  if (key === 'ArrowRight') return Math.min(last, from + 1)
  if (key === 'ArrowLeft') return Math.max(0, from - 1)
  if (key === 'Home') return 0
  if (key === 'End') return last
  const way = key === 'ArrowDown' ? 1 : key === 'ArrowUp' ? -1 : 0
  const here = l.tiles[from]
  if (!way || !here) return from
  let best = from
  let least = Infinity
  for (const [i, t] of l.tiles.entries()) {
    const down = (t.y - here.y) * way
    if (down <= 0) continue
    const far = down + 3 * Math.abs(t.x - here.x)
    if (far < least) {
      least = far
      best = i
    }
  }
  return best
}
