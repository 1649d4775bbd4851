import type { Problem } from '../../api/client'
import type { Message } from '../../api/sse'
import type { Line, Run } from './operation'
import type { Where, Wish } from './queries'

/** keepLines is how many lines are shown at most: the newest. */
export const keepLines = 5_000

/** A line with its place in the log. */
export type Heard = { id: string; line: Line }

/** What was heard of a log that is followed. */
export type Following = { lines: Heard[]; dropped: number; state: 'connecting' | 'following' | 'lost' | 'ended' | 'refused'; ended?: Run['status']; problem?: Problem }

export const begun: Following = { lines: [], dropped: 0, state: 'connecting' }

/** heard adds messages to what was heard: lines that were sent twice count once, and only the newest are kept. */
export function heard(before: Following, messages: Message[]): Following {
  const known = new Set(before.lines.slice(-1_000).map((l) => l.id))
  const lines = [...before.lines]
  let after: Following = before
  for (const m of messages) {
    if (m.event === 'line' && !known.has(m.id)) {
      known.add(m.id)
      lines.push({ id: m.id, line: JSON.parse(m.data) as Line })
    }
    if (m.event === 'end') after = { ...after, state: 'ended', ended: (JSON.parse(m.data) as { status: Run['status'] }).status }
    if (m.event === 'problem') after = { ...after, state: 'refused', problem: JSON.parse(m.data) as Problem }
  }
  const extra = Math.max(0, lines.length - keepLines)
  return { ...after, lines: extra > 0 ? lines.slice(extra) : lines, dropped: before.dropped + extra }
}

/** logsAddress is where the log is followed, from the line after the last that was heard. */
export function logsAddress({ projectId }: Where, operationId: string, wish: Wish, last: string): string {
  const base = projectId ? `/api/v1/projects/${projectId}/operations` : '/api/v1/admin/operations'
  const query = new URLSearchParams({ follow: 'true' })
  for (const [key, value] of Object.entries({ ...wish, last_event_id: last })) if (value) query.set(key, value)
  return `${base}/${operationId}/logs?${query.toString()}`
}
