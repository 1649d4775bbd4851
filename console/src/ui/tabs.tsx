import { useId, useRef, type KeyboardEvent, type ReactNode } from 'react'

export type Tab = { key: string; title: ReactNode; body: () => ReactNode }

/** Tabs shows one of several views; which one belongs in the address, so the page keeps it. */
export function Tabs({ label, tabs, shown, onShow }: { label: string; tabs: Tab[]; shown: string; onShow: (key: string) => void }) {
  const id = useId()
  const bar = useRef<HTMLDivElement>(null)
  const current = tabs.find((t) => t.key === shown) ?? tabs[0]
  if (!current) return null
  const onKey = (e: KeyboardEvent) => {
    const step = e.key === 'ArrowRight' ? 1 : e.key === 'ArrowLeft' ? -1 : 0
    if (!step) return
    const next = tabs[(tabs.indexOf(current) + step + tabs.length) % tabs.length]
    if (!next) return
    onShow(next.key)
    bar.current?.querySelector<HTMLElement>(`[data-tab="${next.key}"]`)?.focus()
  }
  return (
    <div className="flex min-w-0 flex-col gap-4">
      <div ref={bar} role="tablist" aria-label={label} className="flex flex-wrap gap-1 border-b border-line">
        {tabs.map((t) => {
          const active = t === current
          return (
            <button
              key={t.key}
              type="button"
              role="tab"
              id={`${id}-${t.key}`}
              data-tab={t.key}
              aria-selected={active}
              aria-controls={active ? `${id}-panel` : undefined}
              tabIndex={active ? 0 : -1}
              onKeyDown={onKey}
              onClick={() => onShow(t.key)}
              className={`-mb-px border-b-2 px-3 py-2 text-sm font-medium ${active ? 'border-accent text-accent' : 'border-transparent text-muted hover:text-ink'}`}
            >
              {t.title}
            </button>
          )
        })}
      </div>
      <div role="tabpanel" id={`${id}-panel`} aria-labelledby={`${id}-${current.key}`}>
        {current.body()}
      </div>
    </div>
  )
}
