import { useId, useState, type ReactNode } from 'react'
import { Button } from './basics'

/** A filter that narrows what is shown, in words, and how to take it away. */
export type Chip = { label: string; value: string; onClear: () => void }

type Props = {
  /** The filter that is used most: it is always there. */
  children?: ReactNode
  /** The others, behind a button. */
  more?: ReactNode
  active: Chip[]
  onClearAll: () => void
}

/** Filters is one row: what is used most, a button that unfolds the rest, and what is active, each to be taken away. */
export function Filters({ children, more, active, onClearAll }: Props) {
  const [open, setOpen] = useState(false)
  const id = useId()
  return (
    <div className="flex flex-col gap-3">
      <div className="flex flex-wrap items-end gap-2">
        {children && <div className="min-w-40 flex-1 sm:max-w-xs">{children}</div>}
        {more && (
          <Button aria-expanded={open} aria-controls={id} onClick={() => setOpen(!open)}>
            Filters <span aria-hidden>{open ? '▴' : '▾'}</span>
          </Button>
        )}
        {active.length > 0 && (
          <ul aria-label="Active filters" className="flex min-w-0 flex-wrap items-center gap-1.5 py-1">
            {active.map((chip) => (
              <li key={chip.label} className="min-w-0">
                <button type="button" aria-label={`Remove filter ${chip.label}: ${chip.value}`} onClick={chip.onClear} className="flex max-w-full items-center gap-1.5 rounded-full bg-accent-soft py-0.5 pr-2 pl-2.5 text-xs text-accent hover:brightness-95">
                  <span className="min-w-0 truncate">
                    {chip.label}: <span className="font-medium">{chip.value}</span>
                  </span>
                  <span aria-hidden>✕</span>
                </button>
              </li>
            ))}
            <li>
              <button type="button" onClick={onClearAll} className="px-1 text-xs text-accent underline underline-offset-2">
                Clear all
              </button>
            </li>
          </ul>
        )}
      </div>
      <div id={id} hidden={!open} className="grid grid-cols-2 items-start gap-3 rounded-lg border border-line bg-surface p-3 sm:grid-cols-3 lg:grid-cols-6">
        {more}
      </div>
    </div>
  )
}

type Option = string | { value: string; label: string }

/** named is what a choice is called where it is chosen. */
export function named(options: Option[], value: string): string {
  for (const o of options) {
    if (typeof o === 'string' ? o === value : o.value === value) return typeof o === 'string' ? o.replaceAll('_', ' ') : o.label
  }
  return value
}

/** chips are those of the address that are set, in this order: each with its label, and what it is called. */
export function chips(address: Record<string, string | undefined>, change: (patch: Record<string, undefined>) => void, of: { key: string; label: string; options?: Option[] }[]): Chip[] {
  return of.flatMap(({ key, label, options }) => {
    const value = address[key]
    return value ? [{ label, value: named(options ?? [], value), onClear: () => change({ [key]: undefined }) }] : []
  })
}
