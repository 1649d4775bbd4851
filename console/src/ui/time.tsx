import { useSyncExternalStore } from 'react'

// One clock for the whole page: times that are shown as ages stay true.
let now = Date.now()
const watchers = new Set<() => void>()
let timer: ReturnType<typeof setInterval> | undefined

function watch(fn: () => void) {
  watchers.add(fn)
  if (!timer) now = Date.now() // nobody has watched for a while
  timer ??= setInterval(() => {
    now = Date.now()
    for (const w of watchers) w()
  }, 1_000)
  return () => {
    watchers.delete(fn)
    if (watchers.size === 0) {
      clearInterval(timer)
      timer = undefined
    }
  }
}

/** useNow is the time, to the second. */
export function useNow(): number {
  return useSyncExternalStore(watch, () => now)
}

/** useFromNow is what follows from the time: whoever uses it is drawn again when that changes, and not every second. */
export function useFromNow<T extends string | number>(of: (now: number) => T): T {
  return useSyncExternalStore(watch, () => of(now))
}

/** span writes seconds as people say them. */
export function span(seconds: number): string {
  const s = Math.max(0, Math.round(seconds))
  if (s < 60) return `${s} s`
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60 ? `${s % 60} s` : ''}`.trim()
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60) ? `${Math.floor((s % 3600) / 60)} min` : ''}`.trim()
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600) ? `${Math.floor((s % 86400) / 3600)} h` : ''}`.trim()
}

/** between is how long something took, or has taken so far. */
export function between(from: string, to: string | undefined, at: number): string {
  return span(((to ? Date.parse(to) : at) - Date.parse(from)) / 1000)
}

// With its zone: what the control plane writes in messages is in UTC.
const full = new Intl.DateTimeFormat(undefined, { year: 'numeric', month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23', timeZoneName: 'short' })

export function exact(time: string): string {
  return full.format(new Date(time))
}

/** When shows a moment as an age, and exactly on hover and to screen readers. */
export function When({ at, exactly }: { at?: string | null; exactly?: boolean }) {
  const t = useNow()
  if (!at) return <span className="text-muted">never</span>
  const age = (t - Date.parse(at)) / 1000
  const text = exactly ? exact(at) : age < -5 ? `in ${span(-age)}` : age < 5 ? 'just now' : `${coarse(age)} ago`
  return (
    // It changes every second, which nobody wants to hear.
    <time dateTime={at} title={exact(at)} aria-live="off" className="tabular-nums">
      {text}
    </time>
  )
}

function coarse(seconds: number): string {
  if (seconds < 60) return `${Math.round(seconds)} s`
  if (seconds < 3600) return `${Math.round(seconds / 60)} min`
  if (seconds < 86400 * 2) return `${Math.round(seconds / 3600)} h`
  return `${Math.round(seconds / 86400)} d`
}

/** Elapsed counts up while something lasts. */
export function Elapsed({ from, to }: { from: string; to?: string }) {
  const t = useNow()
  return (
    <span aria-live="off" className="tabular-nums">
      {between(from, to, t)}
    </span>
  )
}
