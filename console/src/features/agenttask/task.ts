import type { Schemas } from '../../api/client'
import { jobNamed, type NamedJob } from '../../api/jobs'

export type Task = Schemas['AgenttaskView']
export type Step = Schemas['AgenttaskStepView']

/** titled is the title of a task type as a heading. */
export function titled(title: string): string {
  return title.charAt(0).toUpperCase() + title.slice(1)
}

/** lasts tells whether a task has not ended. */
export function lasts(task: Pick<Task, 'status'>): boolean {
  return task.status === 'queued' || task.status === 'dispatched'
}

const workflow = 'system:workflow:'

/** askedBy takes apart who asked for a task: a workflow of a job, another part of the control plane, or somebody by id. */
export function askedBy(text: string): { kind: 'job'; job: NamedJob } | { kind: 'system'; name: string } | { kind: 'actor'; id: string } {
  const job = text.startsWith(workflow) ? jobNamed(text.slice(workflow.length), '-') : undefined
  if (job) return { kind: 'job', job }
  if (text.startsWith('system:')) return { kind: 'system', name: text.slice('system:'.length) }
  return { kind: 'actor', id: text }
}

export type StepRow = {
  key: string
  name: string
  attempt: number
  status: Step['status']
  began: string
  ended?: string
  percent?: number
  message?: string
}

/**
 * stepRows makes one row of all that a node reported about a step within an attempt: it
 * reports when a step starts, how far it is, and how it ended. Rows are in the order in
 * which the steps began.
 */
export function stepRows(steps: Step[]): StepRow[] {
  const rows = new Map<string, StepRow>()
  for (const s of [...steps].sort((a, b) => a.seq - b.seq)) {
    const key = `${s.attempt}/${s.name}`
    const row = rows.get(key) ?? { key, name: s.name, attempt: s.attempt, status: s.status, began: s.at }
    row.status = s.status
    row.percent = s.percent ?? row.percent
    row.message = s.message ?? row.message
    row.ended = s.status === 'started' ? undefined : s.at
    rows.set(key, row)
  }
  return [...rows.values()].sort((a, b) => a.attempt - b.attempt)
}

/** waitsFor says in a sentence what a task waits for now. */
export function waitsFor(task: Pick<Task, 'status' | 'cancel_requested' | 'attempt' | 'max_attempts'>): string | undefined {
  if (!lasts(task)) return undefined
  if (task.cancel_requested) return 'The node was told to stop it; it stops as soon as that is safe, and reports.'
  if (task.status === 'dispatched') return 'The node works on it.'
  if (task.attempt === 0) return 'It waits for its node to fetch it, which a node that is connected does at once.'
  return `Its node fell silent; it is handed out again, ${task.max_attempts - task.attempt} more ${task.max_attempts - task.attempt === 1 ? 'time' : 'times'} at most.`
}
