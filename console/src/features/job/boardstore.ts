import { isOver, isParked, type Job, type JobHappening, type Stage } from './job'
import { countsOf, type Counts } from './progress'

/**
 * patched is a row after something happened to it. An event is told when an attempt
 * at a stage ends, so that the job is then at the stage that follows.
 */
export function patched<T extends Job>(row: T, said: JobHappening, stages: Stage[], at: string): T {
  const next: T = { ...row, status: said.status, recommended_action: said.recommended_action, epoch: said.epoch ?? row.epoch, updated_at: at }
  const passed = said.status === 'running' && (said.stage_status === 'succeeded' || said.stage_status === 'skipped')
  const stage = passed ? following(stages, said.stage) : stages.find((s) => s.name === said.stage)
  if (stage && said.stage_status !== 'action' && stage.name !== row.current_stage) {
    next.current_stage = stage.name
    next.stage_number = stage.number
    next.stage_started_at = at
  }
  next.current_attempt = passed ? 1 : said.attempt || row.current_attempt
  if (!row.started_at && said.status !== 'pending') next.started_at = at
  next.failure = isParked(said.status) ? { failure_class: said.failure_class ?? '', error_code: said.error_code ?? '', error_message: said.stage_status === 'action' ? (row.failure?.error_message ?? said.message ?? '') : (said.message ?? '') } : undefined
  // What was asked for is done when the job stands still.
  if (isParked(said.status) || isOver(said.status)) next.pending_action = undefined
  next.parked_at = isParked(said.status) ? (row.parked_at ?? at) : undefined
  if (isOver(said.status)) next.completed_at = at
  next.outcome = said.outcome
  return next
}

// A detour goes back to where its own stage leads; that is not in the event, so it is
// left where it is until the list is read again.
function following(stages: Stage[], name: string): Stage | undefined {
  const at = stages.findIndex((s) => s.name === name)
  const from = stages[at]
  if (!from || from.detour) return from
  return stages.slice(at + 1).find((s) => !s.detour) ?? from
}

/** isCertain says whether an event tells all of where the job now is. */
export function isCertain(said: JobHappening, stages: Stage[]): boolean {
  if (said.stage_status === 'action' || said.stage_status === 'failed') return isParked(said.status) || isOver(said.status)
  return !stages.find((s) => s.name === said.stage)?.detour
}

const byName = new Intl.Collator(undefined, { numeric: true })

export type View = { status: string; parkedFirst: boolean }

type Options<T> = { keyOf: (row: T) => string; frame?: (fn: () => void) => void }

/**
 * BoardStore keeps the rows of a live board outside of React: what an event changes
 * is put in place once per frame, and only the rows that changed are told.
 */
export class BoardStore<T extends Job> {
  private rows = new Map<string, T>()
  private waiting = new Map<string, T>()
  private patchedAt = new Map<string, number>()
  private rowWatchers = new Map<string, Set<() => void>>()
  private watchers = new Set<() => void>()
  private anyWatchers = new Set<() => void>()
  private scheduled = false
  private shown: string[] = []
  private counted: Counts = countsOf([])
  private view: View = { status: '', parkedFirst: false }
  private keyOf: (row: T) => string
  private frame: (fn: () => void) => void

  constructor({ keyOf, frame = (fn) => requestAnimationFrame(fn) }: Options<T>) {
    this.keyOf = keyOf
    this.frame = frame
  }

  row = (key: string): T | undefined => this.rows.get(key)
  all = (): T[] => [...this.rows.values()]
  keys = (): string[] => this.shown
  counts = (): Counts => this.counted

  /** latest is the row with what has not been shown yet. */
  latest(key: string): T | undefined {
    return this.waiting.get(key) ?? this.rows.get(key)
  }

  subscribe = (fn: () => void) => {
    this.watchers.add(fn)
    return () => void this.watchers.delete(fn)
  }

  /** watchAll is told of every change of any row, once per frame. */
  watchAll = (fn: () => void) => {
    this.anyWatchers.add(fn)
    return () => void this.anyWatchers.delete(fn)
  }

  watchRow(key: string, fn: () => void) {
    const watchers = this.rowWatchers.get(key) ?? new Set()
    this.rowWatchers.set(key, watchers.add(fn))
    return () => {
      watchers.delete(fn)
      if (watchers.size === 0) this.rowWatchers.delete(key)
    }
  }

  /** load takes what was read, except of rows that an event changed after the reading began. */
  load(list: T[], readFrom: number) {
    const next = new Map<string, T>()
    for (const row of list) {
      const key = this.keyOf(row)
      const touched = this.patchedAt.get(key)
      const newer = touched !== undefined && touched >= readFrom ? this.latest(key) : undefined
      next.set(key, newer ?? (touched === undefined ? same(this.rows.get(key), row) : row))
      if (newer) continue
      this.waiting.delete(key)
      this.patchedAt.delete(key)
    }
    const before = this.rows
    this.rows = next
    for (const [key, row] of next) if (before.get(key) !== row) this.tellRow(key)
    this.arrange()
    this.tellAny()
  }

  patch(row: T, at: number) {
    const key = this.keyOf(row)
    this.waiting.set(key, row)
    this.patchedAt.set(key, at)
    if (this.scheduled) return
    this.scheduled = true
    this.frame(() => this.flush())
  }

  show(view: View) {
    this.view = view
    this.arrange()
  }

  private flush() {
    this.scheduled = false
    let moved = false
    for (const [key, row] of this.waiting) {
      moved ||= this.rows.get(key)?.status !== row.status
      this.rows.set(key, row)
      this.tellRow(key)
    }
    this.waiting.clear()
    if (moved) this.arrange()
    this.tellAny()
  }

  // The list itself is told only when other rows, or the same in another order, are to be seen.
  private arrange() {
    const { status, parkedFirst } = this.view
    const shown = [...this.rows.entries()].filter(([, r]) => !status || r.status === status || (status === 'failed' && isParked(r.status)))
    const first = (r: T) => (parkedFirst && isParked(r.status) ? 0 : 1)
    shown.sort(([, a], [, b]) => first(a) - first(b) || byName.compare(a.hostname, b.hostname))
    const keys = shown.map(([key]) => key)
    const counts = countsOf(this.rows.values())
    const stays = keys.length === this.shown.length && keys.every((k, i) => k === this.shown[i])
    if (stays && JSON.stringify(counts) === JSON.stringify(this.counted)) return
    if (!stays) this.shown = keys
    this.counted = counts
    for (const fn of this.watchers) fn()
  }

  private tellAny() {
    for (const fn of this.anyWatchers) fn()
  }

  private tellRow(key: string) {
    for (const fn of this.rowWatchers.get(key) ?? []) fn()
  }
}

// A row that was read again and is as it was stays the same object, so that nothing is drawn anew.
function same<T extends Job>(before: T | undefined, now: T): T {
  return before?.updated_at === now.updated_at && before.status === now.status ? before : now
}
