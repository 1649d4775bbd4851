import { useEffect, useId, useRef, useState, type KeyboardEvent, type ReactNode } from 'react'
import { Button } from './basics'

export type Entry = { key: string; title: ReactNode; hint?: string; onSelect: () => void }

/** Menu is a button that opens a list of what can be done. Arrow keys move in it, Escape closes it. */
export function Menu({ label, entries }: { label: string; entries: Entry[] }) {
  const [open, setOpen] = useState(false)
  const box = useRef<HTMLDivElement>(null)
  const id = useId()
  useEffect(() => {
    if (!open) return
    box.current?.querySelector<HTMLElement>('[role=menuitem]')?.focus()
    const outside = (e: PointerEvent) => {
      if (!box.current?.contains(e.target as Element)) setOpen(false)
    }
    document.addEventListener('pointerdown', outside)
    return () => document.removeEventListener('pointerdown', outside)
  }, [open])
  const close = () => {
    setOpen(false)
    box.current?.querySelector('button')?.focus()
  }
  const onKey = (e: KeyboardEvent) => {
    if (e.key === 'Escape') close()
    if (e.key === 'Tab') setOpen(false)
    const step = e.key === 'ArrowDown' ? 1 : e.key === 'ArrowUp' ? -1 : 0
    const items = [...(box.current?.querySelectorAll<HTMLElement>('[role=menuitem]') ?? [])]
    if (!step || items.length === 0) return
    e.preventDefault()
    const at = items.indexOf(document.activeElement as HTMLElement)
    items[(at + step + items.length) % items.length]?.focus()
  }
  if (entries.length === 0) return null
  return (
    <div ref={box} className="relative">
      <Button aria-haspopup="menu" aria-expanded={open} aria-controls={open ? id : undefined} onClick={() => setOpen(!open)}>
        {label} <span aria-hidden>▾</span>
      </Button>
      {open && (
        <div id={id} role="menu" tabIndex={-1} aria-label={label} onKeyDown={onKey} className="absolute right-0 z-30 mt-1 w-64 max-w-[80vw] rounded-md border border-line bg-surface p-1 shadow-lg">
          {entries.map((entry) => (
            <button
              key={entry.key}
              type="button"
              role="menuitem"
              tabIndex={-1}
              onClick={() => {
                close()
                entry.onSelect()
              }}
              className="block w-full rounded px-2.5 py-1.5 text-left text-sm hover:bg-raised focus:bg-raised"
            >
              {entry.title}
              {entry.hint && <span className="block text-xs text-muted">{entry.hint}</span>}
            </button>
          ))}
        </div>
      )}
    </div>
  )
}
