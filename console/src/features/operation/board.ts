import { statesOf } from '../../api/states'
import type { Tone } from '../../ui/tone'
import type { Run, Step, Target } from './operation'

/** A step as the board heads a column with it. */
export type Column = { id: string; title: string }

/** A cell of the board: how a step stands on a node. */
export type Cell = { words: string; tone: Tone; /** The newest that is known of it. */ step?: Step }

const stepTones: Record<Step['status'], Tone> = { succeeded: 'ok', failed: 'bad', canceled: 'idle', not_reached: 'idle', planned: 'info' }
const stepWords: Record<Step['status'], string> = { succeeded: 'done', failed: 'failed', canceled: 'stopped', not_reached: 'not reached', planned: 'checked only' }

const targetTones: Record<string, Tone> = Object.fromEntries(statesOf('operation_target').map((s) => [s.name, s.tone]))

/** targetTone is the colour of how a node stands. */
export const targetTone = (t: Pick<Target, 'status'>): Tone => targetTones[t.status] ?? 'idle'

/** columnsOf is the steps of a run: those of its definition, or where that is gone, those that nodes told of. */
export function columnsOf(run: Pick<Run, 'total_steps'>, defined: { id: string; title?: string }[] | undefined, steps: Step[]): Column[] {
  if (defined) return defined.map((s) => ({ id: s.id, title: s.title ?? s.id }))
  const told = new Map(steps.map((s) => [s.step_index, s.step_id]))
  return Array.from({ length: run.total_steps }, (_, i) => {
    const id = told.get(i)
    return { id: id ?? `step ${i + 1}`, title: id ?? `Step ${i + 1}` }
  })
}

/** byTarget puts the newest outcome of each step under its target. */
export function byTarget(steps: Step[]): Map<string, Map<number, Step>> {
  const out = new Map<string, Map<number, Step>>()
  for (const s of steps) {
    const of = out.get(s.target_id) ?? new Map<number, Step>()
    out.set(s.target_id, of)
    const before = of.get(s.step_index)
    if (!before || s.attempt_number >= before.attempt_number) of.set(s.step_index, s)
  }
  return out
}

const waiting: Cell = { words: '–', tone: 'idle' }

/**
 * cellsOf is how each step stands on a node. What nodes told of their steps counts; a node
 * that works, or waits to go on, has told nothing yet of the steps from its own on. Where
 * they told nothing (of many nodes only what failed is read), the place of the node says enough.
 */
export function cellsOf(target: Target, columns: Column[], told: Map<number, Step> | undefined): Cell[] {
  const goesOn = target.status === 'running' || target.status === 'waiting'
  const at = target.status === 'running' ? Math.max(columns.findIndex((c) => c.id === target.current_step), target.step_index) : target.step_index
  return columns.map((_, i) => {
    const step = told?.get(i)
    if (goesOn && i >= target.step_index) {
      if (target.status === 'running' && i === at) return { words: doing(target), tone: 'info' }
      return target.status === 'running' && i < at ? { words: 'done', tone: 'ok' } : waiting
    }
    if (step) return { words: said(step), tone: step.changed && step.status === 'succeeded' ? 'ok' : stepTones[step.status], step }
    if (target.status === 'skipped') return waiting
    if (target.status === 'succeeded' || i < target.step_index) return { words: 'done', tone: 'ok' }
    return i === target.step_index && target.status === 'failed' ? { words: 'failed', tone: 'bad' } : waiting
  })
}

function doing(t: Target): string {
  if (t.probing) return 'checking'
  return t.current_step_percent ? `running, ${t.current_step_percent} %` : 'running'
}

function said(s: Step): string {
  const words = s.status === 'succeeded' && s.changed ? 'changed' : stepWords[s.status]
  const times = s.attempt_number > 1 || s.tries > 1 ? ` (${s.attempt_number > 1 ? `attempt ${s.attempt_number}` : `${s.tries} tries`})` : ''
  return words + times
}

/** stepLook is how a step of an attempt is shown. */
export const stepLook = (s: Step): { words: string; tone: Tone } => ({ words: s.status === 'succeeded' && s.changed ? 'done, changed something' : stepWords[s.status], tone: stepTones[s.status] })

/** A cause that nodes have in common. */
export type Cause = { code: string; message: string; remedy?: string; hostnames: string[] }

/** causesOf puts nodes together that could not go on for the same cause, the most frequent first. */
export function causesOf(targets: Target[]): Cause[] {
  const causes = new Map<string, Cause>()
  for (const t of targets) {
    if (!t.error) continue
    const key = JSON.stringify([t.error.code, t.error.message])
    const cause = causes.get(key) ?? { code: t.error.code, message: t.error.message, remedy: t.error.remedy, hostnames: [] }
    cause.hostnames.push(t.hostname)
    causes.set(key, cause)
  }
  return [...causes.values()].sort((a, b) => b.hostnames.length - a.hostnames.length)
}
