import { Link, useNavigate } from '@tanstack/react-router'
import { useEffect, useMemo, useRef, useState, type KeyboardEvent } from 'react'
import { words } from '../../ui/tone'
import { called } from '../allocation/allocation'
import { useOnNode } from '../allocation/Tenant'
import { useProjectName } from '../allocation/nameOfProject'
import { draw, parked, type Group } from './draw'
import { at, layout, moved, type Layout } from './layout'
import type { Hall, Spot } from './racks'

/** told is all that the map knows of a node, in words. */
function told(spot: Spot): string[] {
  const out = [`${words(spot.status)}${spot.status === 'active' && !spot.schedulable ? ', not schedulable' : ''}`, `agent: ${words(spot.drift_state)}`]
  if (spot.severity) out.push(`${spot.severity} finding`)
  if (spot.job) out.push(`${spot.job.kind} ${parked(spot) ? 'parked' : words(spot.job.status)}`)
  return out
}

/** useThemeNow changes when the page is painted in other colours. */
function useThemeNow(): string {
  const [theme, setTheme] = useState(document.documentElement.dataset.theme ?? '')
  useEffect(() => {
    const seen = new MutationObserver(() => setTheme(document.documentElement.dataset.theme ?? ''))
    seen.observe(document.documentElement, { attributes: true, attributeFilter: ['data-theme'] })
    return () => seen.disconnect()
  }, [])
  return theme
}

/**
 * HallMap draws every node of a site as a tile on a canvas: ten thousand cost one
 * painting. Over the tile that is looked at lies a real link, so that keyboard and
 * screen readers have what the pointer has: Tab leads to it, arrow keys move it.
 */
export function HallMap({ hall, shown, onTable }: { hall: Hall; shown: ReadonlySet<Group>; onTable: () => void }) {
  const frame = useRef<HTMLDivElement>(null)
  const canvas = useRef<HTMLCanvasElement>(null)
  const [width, setWidth] = useState(0)
  const [current, setCurrent] = useState(0)
  const [hinted, setHinted] = useState<number>()
  const theme = useThemeNow()
  const placed = useMemo(() => layout(hall, width), [hall, width])

  useEffect(() => {
    const box = frame.current
    if (!box) return
    const sized = new ResizeObserver(([entry]) => setWidth(Math.floor(entry?.contentRect.width ?? 0)))
    sized.observe(box)
    return () => sized.disconnect()
  }, [])
  useEffect(() => {
    if (canvas.current && width > 0) draw(canvas.current, placed, width, shown)
  }, [placed, width, shown, theme])
  usePointer(canvas, placed, setHinted)

  const rented = useRented(hinted === undefined ? undefined : placed.tiles[hinted]?.spot)
  const index = Math.min(current, placed.tiles.length - 1)
  const tile = placed.tiles[index]
  const onKey = (e: KeyboardEvent) => {
    if (e.key === 't') return onTable()
    const to = moved(placed, index, e.key)
    if (to === index) return
    e.preventDefault()
    setCurrent(to)
    setHinted(to)
  }
  return (
    <div ref={frame} className="relative">
      <canvas ref={canvas} aria-hidden style={{ width, height: placed.height }} className="block cursor-pointer" />
      {tile && (
        <Link
          to="/nodes/$nodeId"
          params={{ nodeId: tile.spot.node_id }}
          preload={false}
          aria-label={`${tile.spot.hostname}: ${told(tile.spot).join(', ')}. Arrow keys move, t shows the racks as a table.`}
          onKeyDown={onKey}
          onFocus={() => setHinted(index)}
          onBlur={() => setHinted(undefined)}
          className="pointer-events-none absolute"
          style={{ left: tile.x, top: tile.y, width: placed.size, height: placed.size }}
        />
      )}
      {hinted !== undefined && <Hint of={placed} index={hinted} width={width} rented={rented} />}
      <p aria-live="polite" className="sr-only">
        {hinted !== undefined && hinted === index && tile ? `${tile.spot.hostname}: ${[...told(tile.spot), ...rented].join(', ')}` : ''}
      </p>
    </div>
  )
}

/** usePointer is the way of the mouse over the canvas; the keyboard's is the link. */
function usePointer(canvas: { current: HTMLCanvasElement | null }, placed: Layout, onHint: (index: number | undefined) => void) {
  const navigate = useNavigate()
  useEffect(() => {
    const area = canvas.current
    if (!area) return
    const under = (e: MouseEvent) => at(placed, e.offsetX, e.offsetY)
    const move = (e: MouseEvent) => {
      const index = under(e)
      onHint(index < 0 ? undefined : index)
      area.style.cursor = index < 0 ? 'default' : 'pointer'
    }
    const leave = () => onHint(undefined)
    const click = (e: MouseEvent) => {
      const spot = placed.tiles[under(e)]?.spot
      if (spot) void navigate({ to: '/nodes/$nodeId', params: { nodeId: spot.node_id } })
    }
    area.addEventListener('mousemove', move)
    area.addEventListener('mouseleave', leave)
    area.addEventListener('click', click)
    return () => {
      area.removeEventListener('mousemove', move)
      area.removeEventListener('mouseleave', leave)
      area.removeEventListener('click', click)
    }
  }, [canvas, placed, onHint, navigate])
}

/** useRented says who is on the node that is looked at: it is asked for one node at a time, whatever their number. */
function useRented(spot: Spot | undefined): string[] {
  const a = useOnNode(spot?.node_id).data
  const project = useProjectName(a?.project_id)
  return a ? [`${words(a.status)} allocation ${called(a)}${project ? ` of ${project}` : ''}`] : []
}

function Hint({ of, index, width, rented }: { of: Layout; index: number; width: number; rented: string[] }) {
  const tile = of.tiles[index]
  if (!tile) return null
  const right = tile.x > width - 230
  return (
    <div
      aria-hidden
      className="pointer-events-none absolute z-20 w-max max-w-56 rounded-md border border-line bg-surface px-2.5 py-1.5 text-xs shadow-lg"
      style={{ top: tile.y + of.size + 6, ...(right ? { right: Math.max(0, width - tile.x - of.size) } : { left: tile.x }) }}
    >
      <p className="font-semibold">{tile.spot.hostname}</p>
      {[...told(tile.spot), ...rented].map((line) => (
        <p key={line} className="text-muted">
          {line}
        </p>
      ))}
    </div>
  )
}
