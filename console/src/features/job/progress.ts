import { isBusy, isOver, isParked, type Job, type LedgerEvent, type Stage } from './job'

export type Segment = 'done' | 'current' | 'failed' | 'stopped' | 'skipped' | 'ahead'

/**
 * segments says of each stage how it stands. Detours that were passed by count as
 * skipped: a job reaches them only when the stage before them failed.
 */
export function segments(job: Pick<Job, 'status' | 'current_stage'>, stages: Stage[]): Segment[] {
  const reached = job.status === 'completed' || job.status === 'reconciled'
  const at = stages.findIndex((s) => s.name === job.current_stage)
  const failed = !reached && stages[at]?.detour ? stages.findLastIndex((s, i) => i < at && !s.detour) : at
  return stages.map((s, i) => {
    if (i === failed && i < at) return 'failed'
    if (reached || (at >= 0 && i < at)) return s.detour && i < failed ? 'skipped' : 'done'
    if (i !== at || job.status === 'pending') return 'ahead'
    if (isParked(job.status)) return 'failed'
    return isOver(job.status) ? 'stopped' : 'current'
  })
}

/**
 * remaining is how many seconds a job will probably take from now on, or undefined
 * when nobody knows: one of the stages ahead has never been passed before.
 */
export function remaining(job: Pick<Job, 'status' | 'current_stage' | 'stage_started_at'>, stages: Stage[], now: number): number | undefined {
  if (isOver(job.status)) return 0
  if (isParked(job.status) || job.status === 'compensating') return undefined
  const at = stages.findIndex((s) => s.name === job.current_stage)
  if (at < 0) return undefined
  let seconds = 0
  for (const [i, s] of stages.entries()) {
    if (i < at || (s.detour && i !== at)) continue
    const typical = typicalOf(s)
    if (typical === undefined) return undefined
    const spent = i === at && isBusy(job.status) && job.stage_started_at ? (now - Date.parse(job.stage_started_at)) / 1000 : 0
    seconds += Math.max(0, typical - spent)
  }
  return seconds
}

// A stage that was never passed, and does not wait for anything, takes seconds: the
// contract says only of those that wait how long they usually take.
function typicalOf(s: Stage): number | undefined {
  return s.typical_seconds ?? (s.usually ? undefined : 1)
}

/** stoodStillAt is when a job came to rest: from then on it takes no longer. */
export function stoodStillAt(job: Pick<Job, 'status' | 'completed_at' | 'parked_at' | 'updated_at'>): string | undefined {
  return job.completed_at ?? job.parked_at ?? (isOver(job.status) ? job.updated_at : undefined)
}

/** isLate says whether the present stage takes much longer than usual. */
export function isLate(job: Pick<Job, 'status' | 'current_stage' | 'stage_started_at'>, stages: Stage[], now: number): boolean {
  const stage = stages.find((s) => s.name === job.current_stage)
  if (!isBusy(job.status) || !job.stage_started_at || stage?.typical_seconds === undefined) return false
  const spent = (now - Date.parse(job.stage_started_at)) / 1000
  return spent > 2 * stage.typical_seconds && spent > stage.typical_seconds + 30
}

export type Attempt = {
  number: number
  epoch: number
  startedAt?: string
  endedAt?: string
  outcome: 'running' | 'succeeded' | 'failed' | 'skipped' | 'compensated'
  message?: string
  details?: LedgerEvent['details']
  notes: LedgerEvent[]
}

/** One step of the way: a stage with its attempts, or something that an operator did. */
export type Step = { kind: 'stage'; stage: string; attempts: Attempt[] } | { kind: 'action'; event: LedgerEvent }

const endings: LedgerEvent['status'][] = ['succeeded', 'failed', 'skipped', 'compensated']

/** steps makes of the ledger, oldest entry first, the way that a job went. */
export function steps(events: LedgerEvent[]): Step[] {
  const out: Step[] = []
  for (const e of events) {
    if (e.status === 'action') {
      out.push({ kind: 'action', event: e })
      continue
    }
    const attempt = attemptFor(out, e)
    if (e.status === 'started') {
      attempt.startedAt ??= e.occurred_at
    } else if (endings.includes(e.status)) {
      attempt.outcome = e.status as Attempt['outcome']
      attempt.endedAt = e.occurred_at
      attempt.message = e.message
      attempt.details = e.details
    } else {
      attempt.notes.push(e)
    }
  }
  return out
}

// An entry belongs to the step before it when that is of the same stage; going back
// to a stage later is a step of its own.
function attemptFor(out: Step[], e: LedgerEvent): Attempt {
  let step = out.at(-1)
  if (step?.kind !== 'stage' || step.stage !== e.stage) {
    step = { kind: 'stage', stage: e.stage, attempts: [] }
    out.push(step)
  }
  const last = step.attempts.at(-1)
  const beside = e.status === 'note' || e.status === 'observed'
  if (last && (beside || (last.number === e.attempt && last.epoch === e.epoch && last.endedAt === undefined))) return last
  const fresh: Attempt = { number: e.attempt, epoch: e.epoch, outcome: 'running', notes: [] }
  step.attempts.push(fresh)
  return fresh
}

/** Counts is how many jobs have each status, and how many reached their goal with gaps. */
export type Counts = Record<Job['status'] | 'with_gaps', number>

export function countsOf(rows: Iterable<Pick<Job, 'status' | 'outcome'>>): Counts {
  const counts: Counts = { pending: 0, running: 0, compensating: 0, failed_retryable: 0, failed_manual_intervention: 0, completed: 0, reconciled: 0, cancelled: 0, with_gaps: 0 }
  for (const r of rows) {
    counts[r.status]++
    if (r.outcome === 'with_gaps') counts.with_gaps++
  }
  return counts
}

/** How far a whole batch is, and when it will probably end. */
export type Pace = { perHour?: number; secondsLeft?: number }

const hour = 3_600_000
// What happened within a minute says little about an hour.
const least = 60_000

/**
 * paceOf is how many nodes a batch finished per hour, over the last hour at most, and how
 * long the rest takes when as many run at once as now. Parked ones are not waited for.
 */
export function paceOf(rows: Job[], stages: Stage[], now: number): Pace {
  const begun = Math.min(...rows.flatMap((r) => (r.started_at ? [Date.parse(r.started_at)] : [])))
  const ended = rows.flatMap((r) => ((r.status === 'completed' || r.status === 'reconciled') && r.completed_at ? [Date.parse(r.completed_at)] : []))
  const moving = rows.filter((r) => !isOver(r.status) && !isParked(r.status))
  // A batch that has come to rest keeps the pace that it had.
  const until = moving.length > 0 || ended.length === 0 ? now : Math.max(...ended)
  const from = Math.max(begun, until - hour)
  const recent = ended.filter((t) => t >= from).length
  const perHour = Number.isFinite(begun) && recent > 0 && until - from >= least ? (recent * hour) / (until - from) : undefined
  let sum = 0
  let longest = 0
  for (const r of moving) {
    const left = remaining(r, stages, now)
    if (left === undefined) return { perHour }
    sum += left
    longest = Math.max(longest, left)
  }
  const atOnce = Math.max(1, moving.filter((r) => isBusy(r.status)).length)
  return { perHour, secondsLeft: Math.max(longest, sum / atOnce) }
}
