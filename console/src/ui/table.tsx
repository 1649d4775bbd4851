import { useVirtualizer } from '@tanstack/react-virtual'
import { useEffect, useRef, useState, type KeyboardEvent, type ReactNode } from 'react'

export type Column<T> = {
  /** Names the column, and its order when it can be sorted by. */
  key: string
  title: string
  cell: (row: T) => ReactNode
  /** Width as a track of a CSS grid. */
  width?: string
  sortable?: boolean
  align?: 'right'
}

export type Sort = { by: string; order: 'asc' | 'desc' }

const rowHeight = 37

type Props<T> = {
  label: string
  columns: Column<T>[]
  rows: T[]
  rowKey: (row: T) => string
  /** What a row leads to; Enter and a click open it. */
  onOpen?: (row: T) => void
  sort?: Sort
  onSort?: (s: Sort) => void
  /** Reads the next page; the table asks when its end comes near. */
  more?: () => void
  /** Height of the table: it scrolls inside. Without it the table is as long as its rows. */
  height?: string
  /** The rows are those of an earlier question while the answer is on its way. */
  stale?: boolean
  empty?: ReactNode
}

/**
 * Table shows rows of one height, of which only those in sight are in the page: ten
 * thousand cost what thirty do. Arrow keys, Page, Home and End move; Enter opens.
 */
export function Table<T>({ label, columns, rows, rowKey, onOpen, sort, onSort, more, height, stale, empty }: Props<T>) {
  const scroller = useRef<HTMLDivElement>(null)
  const [at, setAt] = useState(0)
  const virtual = useVirtualizer({ count: rows.length, getScrollElement: () => scroller.current, estimateSize: () => rowHeight, overscan: 12 })
  const items = virtual.getVirtualItems()
  const last = items.at(-1)?.index ?? 0
  useEffect(() => {
    if (more && last >= rows.length - 20) more()
  }, [more, last, rows.length])

  const grid = { gridTemplateColumns: columns.map((c) => c.width ?? 'minmax(7rem, 1fr)').join(' ') }
  const go = (to: number) => {
    const index = Math.max(0, Math.min(rows.length - 1, to))
    setAt(index)
    virtual.scrollToIndex(index)
    const row = () => scroller.current?.querySelector<HTMLElement>(`[data-index="${index}"]`)
    // At once where it is in the page: the key after this one is for it. One that was scrolled to is there with the next frame.
    const shown = row()
    if (shown) shown.focus({ preventScroll: true })
    else requestAnimationFrame(() => row()?.focus({ preventScroll: true }))
  }
  const keys: Record<string, (index: number) => number> = {
    ArrowDown: (i) => i + 1,
    ArrowUp: (i) => i - 1,
    PageDown: (i) => i + 15,
    PageUp: (i) => i - 15,
    Home: () => 0,
    End: () => rows.length - 1,
  }
  const onKey = (e: KeyboardEvent, index: number, row: T) => {
    if (e.target !== e.currentTarget) return // a button in a cell has keys of its own
    const move = keys[e.key]
    if (move) {
      e.preventDefault()
      go(move(index))
    } else if (e.key === 'Enter' && onOpen) {
      e.preventDefault() // the same key would press the button that a dialog begins with
      onOpen(row)
    }
  }

  if (rows.length === 0 && empty) return <>{empty}</>
  return (
    <div ref={scroller} className={`overflow-auto rounded-lg border border-line bg-surface ${stale ? 'opacity-60' : ''}`} style={{ height, maxHeight: height ? undefined : '70vh' }} aria-busy={stale || undefined}>
      <div role="grid" aria-label={label} aria-rowcount={rows.length + 1} className="min-w-max md:min-w-0">
        <div role="row" aria-rowindex={1} className="sticky top-0 z-10 grid border-b border-line bg-raised text-xs font-medium text-muted" style={grid}>
          {columns.map((c) => (
            <Header key={c.key} column={c} sort={sort} onSort={onSort} />
          ))}
        </div>
        <div role="rowgroup" className="relative" style={{ height: virtual.getTotalSize() }}>
          {items.map((v) => {
            const row = rows[v.index] as T
            return (
              <div
                key={rowKey(row)}
                data-index={v.index}
                role="row"
                aria-rowindex={v.index + 2}
                tabIndex={v.index === at || (at >= rows.length && v.index === 0) ? 0 : -1}
                onKeyDown={(e) => onKey(e, v.index, row)}
                onFocus={() => setAt(v.index)}
                onClick={(e) => onOpen && !(e.target as HTMLElement).closest('a,button,input') && onOpen(row)}
                className={`absolute inset-x-0 grid items-center border-b border-line text-sm hover:bg-raised focus-visible:z-10 ${onOpen ? 'cursor-pointer' : ''}`}
                style={{ ...grid, height: rowHeight, transform: `translateY(${v.start}px)` }}
              >
                {columns.map((c) => (
                  <div key={c.key} role="gridcell" className={`min-w-0 truncate px-3 ${c.align === 'right' ? 'text-right tabular-nums' : ''}`}>
                    {c.cell(row)}
                  </div>
                ))}
              </div>
            )
          })}
        </div>
      </div>
    </div>
  )
}

function Header<T>({ column, sort, onSort }: { column: Column<T>; sort?: Sort; onSort?: (s: Sort) => void }) {
  const sorted = sort?.by === column.key ? sort.order : undefined
  const next = () => onSort?.({ by: column.key, order: sorted === 'asc' ? 'desc' : 'asc' })
  return (
    <div role="columnheader" aria-sort={sorted === 'asc' ? 'ascending' : sorted === 'desc' ? 'descending' : undefined} className={`px-3 py-2 ${column.align === 'right' ? 'text-right' : ''}`}>
      {column.sortable && onSort ? (
        <button type="button" onClick={next} className="inline-flex items-center gap-1 hover:text-ink">
          {column.title}
          <span aria-hidden>{sorted === 'asc' ? '▲' : sorted === 'desc' ? '▼' : ''}</span>
        </button>
      ) : (
        column.title
      )}
    </div>
  )
}
