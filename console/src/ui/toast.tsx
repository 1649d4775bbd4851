import { useSyncExternalStore } from 'react'
import { toneSoft, type Tone } from './tone'

type Toast = { key: number; tone: Tone; text: string }

let toasts: Toast[] = []
let next = 0
const watchers = new Set<() => void>()

function change(to: Toast[]) {
  toasts = to
  for (const fn of watchers) fn()
}

/** say tells in passing that something was done. What failed is said where it was asked for, and stays. */
export function say(text: string, tone: Tone = 'ok') {
  const key = next++
  change([...toasts, { key, tone, text }])
  setTimeout(() => change(toasts.filter((t) => t.key !== key)), 6_000)
}

export function Toasts() {
  const shown = useSyncExternalStore(
    (fn) => {
      watchers.add(fn)
      return () => void watchers.delete(fn)
    },
    () => toasts,
  )
  return (
    <div role="status" aria-live="polite" className="fixed right-4 bottom-20 z-50 flex max-w-sm flex-col gap-2">
      {shown.map((t) => (
        <p key={t.key} className={`rounded-md border border-line px-3 py-2 text-sm shadow-lg ${toneSoft[t.tone]}`}>
          {t.text}
        </p>
      ))}
    </div>
  )
}
