/** Slider positions of time travel: a thousand between the beginning of a node and now. */
export const steps = 1000

export function positionOf(at: number, from: number, to: number): number {
  if (to <= from) return steps
  return Math.round((Math.min(Math.max(at, from), to) - from) / (to - from) * steps)
}

export function momentOf(position: number, from: number, to: number): number {
  return Math.round(from + ((to - from) * Math.min(Math.max(position, 0), steps)) / steps)
}

/** hourAgo is where time travel begins: an hour ago, or the beginning of a younger node. */
export function hourAgo(created: string, now = Date.now()): string {
  return new Date(Math.max(now - 3_600_000, beginning(created))).toISOString()
}

/** beginning is the first moment that can be asked for: the history begins a moment after the node was made. */
export function beginning(created: string): number {
  return Date.parse(created) + 1_000
}

/** inputOf is a moment as an input of date and time wants it: local, to the minute. */
export function inputOf(at: number): string {
  const d = new Date(at)
  const two = (n: number) => String(n).padStart(2, '0')
  return `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())}T${two(d.getHours())}:${two(d.getMinutes())}`
}

/** typed is the moment that such an input holds; undefined when it is none. */
export function typed(text: string): number | undefined {
  const at = Date.parse(text)
  return Number.isNaN(at) ? undefined : at
}

/** askedAt is the moment of the past that the address asks for; undefined: now, also for what is yet to come. */
export function askedAt(text: string | undefined, now = Date.now()): string | undefined {
  return text && Date.parse(text) <= now ? text : undefined
}
