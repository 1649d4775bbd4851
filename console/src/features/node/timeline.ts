import type { Schemas } from '../../api/client'

export type Change = Schemas['NodeHistoryView']

/** A stretch of time that a node was in one state. */
export type Stretch = { status: string; from: number; to: number; cause: string }

/**
 * stretches makes of the history, newest first, the states that a node went through,
 * oldest first. The last one lasts until now. When the beginning of the history was not
 * read, they begin with the oldest change that was. A node whose state never changed is
 * in the one that it has.
 */
export function stretches(history: Change[], now: number, status: string): Stretch[] {
  const moves = history.filter((c) => c.to_status).reverse()
  const out: Stretch[] = []
  // The first state is named by the change that ended it.
  const begin = history.at(-1)
  const first = moves[0]
  if (begin && !first) return [{ status, from: Date.parse(begin.occurred_at), to: now, cause: begin.cause }]
  if (begin && first?.from_status && Date.parse(begin.occurred_at) < Date.parse(first.occurred_at)) {
    out.push({ status: first.from_status, from: Date.parse(begin.occurred_at), to: Date.parse(first.occurred_at), cause: begin.cause })
  }
  for (const [i, move] of moves.entries()) {
    const from = Date.parse(move.occurred_at)
    const next = moves[i + 1]
    const to = next ? Date.parse(next.occurred_at) : Math.max(now, from)
    out.push({ status: move.to_status ?? '', from, to, cause: move.cause })
  }
  return out
}

/** A stretch as it is drawn: where it begins and how wide it is, in percent. */
export type Segment = Stretch & { left: number; width: number }

/** A state that lasted a moment is still seen. */
const least = 0.6

/** segments lays stretches out over a bar; each is wide enough to be seen, and together they fill it. */
export function segments(of: Stretch[]): Segment[] {
  const first = of[0]
  const last = of.at(-1)
  if (!first || !last) return []
  const span = Math.max(1, last.to - first.from)
  const widths = of.map((s) => Math.max(least, ((s.to - s.from) / span) * 100))
  const sum = widths.reduce((a, b) => a + b, 0)
  let left = 0
  return of.map((s, i) => {
    const width = ((widths[i] ?? 0) / sum) * 100
    const segment = { ...s, left, width }
    left += width
    return segment
  })
}

/** within keeps what is newer than a moment; the stretch that spans it is cut. */
export function within(of: Stretch[], since: number): Stretch[] {
  return of.filter((s) => s.to > since).map((s) => (s.from < since ? { ...s, from: since } : s))
}

/** spent is how long a node was in each state, the longest first. */
export function spent(of: Stretch[]): { status: string; seconds: number }[] {
  const sums = new Map<string, number>()
  for (const s of of) sums.set(s.status, (sums.get(s.status) ?? 0) + (s.to - s.from) / 1000)
  return [...sums].map(([status, seconds]) => ({ status, seconds })).sort((a, b) => b.seconds - a.seconds)
}

/** before and after are the changes next to a moment, for going through the past step by step. */
export function before(history: Change[], at: number): Change | undefined {
  return history.find((c) => Date.parse(c.occurred_at) < at)
}

export function after(history: Change[], at: number): Change | undefined {
  return history.findLast((c) => Date.parse(c.occurred_at) > at)
}
