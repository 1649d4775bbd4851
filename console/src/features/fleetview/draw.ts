import { toneOf, type Tone } from '../../ui/tone'
import { groups } from '../node/filters'
import type { Layout, Tile } from './layout'
import type { Spot } from './racks'

/** The coarse state of a tile: the key of a group of states. */
export type Group = string

const byStatus: Record<string, Group> = Object.fromEntries(groups.flatMap((g) => g.states.map((s) => [s, g.key])))

export function groupOf(status: Spot['status']): Group {
  return byStatus[status] ?? status
}

export function parked(spot: Spot): boolean {
  return spot.job?.status === 'failed_retryable' || spot.job?.status === 'failed_manual_intervention'
}

type Palette = Record<Tone | 'surface' | 'muted', string>

const variables: Palette = { ok: '--ok', bad: '--bad', warn: '--warn', info: '--info', idle: '--idle', accent: '--accent', surface: '--surface', muted: '--muted' }

/** palette reads the colours of the theme that is shown now. */
export function palette(of: Element): Palette {
  const style = getComputedStyle(of)
  return Object.fromEntries(Object.entries(variables).map(([key, name]) => [key, style.getPropertyValue(name).trim()])) as Palette
}

/** draw paints all tiles; those of groups that are not shown are faint. */
export function draw(canvas: HTMLCanvasElement, l: Layout, width: number, shown: ReadonlySet<Group>) {
  const ratio = window.devicePixelRatio || 1
  canvas.width = Math.ceil(width * ratio)
  canvas.height = Math.ceil(l.height * ratio)
  const ctx = canvas.getContext('2d')
  if (!ctx) return
  const colours = palette(canvas)
  ctx.scale(ratio, ratio)
  ctx.font = '11px system-ui, sans-serif'
  ctx.fillStyle = colours.muted
  for (const label of l.labels) ctx.fillText(label.text, label.x, label.y, l.room)
  for (const tile of l.tiles) {
    const group = groupOf(tile.spot.status)
    const tone = toneOf('node', tile.spot.status)
    if (shown.size > 0 && !shown.has(group)) {
      ctx.globalAlpha = 0.14
      ctx.fillStyle = colours[tone]
      ctx.fillRect(tile.x, tile.y, l.size, l.size)
    } else {
      paint(ctx, tile, l.size, colours[tone], colours.surface, tone === 'ok')
    }
    ctx.globalAlpha = 1
  }
}

/**
 * paint draws one tile. A job makes it hollow, one that is parked leaves its core; a
 * cross is a critical finding, a dot a warning: each is a shape, for those to whom
 * colours say nothing.
 */
function paint(ctx: CanvasRenderingContext2D, { spot, x, y }: Tile, size: number, colour: string, surface: string, calm: boolean) {
  const line = Math.max(1.5, size / 8)
  // What is as it should be stays in the background.
  ctx.globalAlpha = calm && !spot.job && spot.severity !== 'critical' && spot.severity !== 'warning' ? 0.72 : 1
  ctx.fillStyle = colour
  if (spot.job) {
    ctx.strokeStyle = colour
    ctx.lineWidth = line
    ctx.strokeRect(x + line / 2, y + line / 2, size - line, size - line)
    const core = size / 3
    if (parked(spot)) ctx.fillRect(x + core, y + core, core, core)
  } else {
    ctx.fillRect(x, y, size, size)
  }
  mark(ctx, spot, x, y, size, spot.job ? colour : surface, line)
}

function mark(ctx: CanvasRenderingContext2D, spot: Spot, x: number, y: number, size: number, ink: string, line: number) {
  if (spot.severity === 'critical') {
    const inset = size * 0.24
    ctx.strokeStyle = ink
    ctx.lineWidth = line
    ctx.beginPath()
    ctx.moveTo(x + inset, y + inset)
    ctx.lineTo(x + size - inset, y + size - inset)
    ctx.moveTo(x + size - inset, y + inset)
    ctx.lineTo(x + inset, y + size - inset)
    ctx.stroke()
  } else if (spot.severity === 'warning') {
    ctx.fillStyle = ink
    ctx.beginPath()
    ctx.arc(x + size / 2, y + size / 2, Math.max(1.5, size / 6), 0, 2 * Math.PI)
    ctx.fill()
  }
}
