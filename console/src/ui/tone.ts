import type { components } from '../api/gen/schema'

// A state that the lifecycle gets and that has no tone here fails the build.
type States = components['schemas']

/** Tones are what colours mean: nothing else in the console chooses a colour. */
export type Tone = 'ok' | 'warn' | 'bad' | 'info' | 'idle' | 'accent'

export const toneText: Record<Tone, string> = {
  ok: 'text-ok',
  warn: 'text-warn',
  bad: 'text-bad',
  info: 'text-info',
  idle: 'text-idle',
  accent: 'text-accent',
}

export const toneSoft: Record<Tone, string> = {
  ok: 'bg-ok-soft text-ok',
  warn: 'bg-warn-soft text-warn',
  bad: 'bg-bad-soft text-bad',
  info: 'bg-info-soft text-info',
  idle: 'bg-idle-soft text-idle',
  accent: 'bg-accent-soft text-accent',
}

export const toneFill: Record<Tone, string> = {
  ok: 'bg-ok',
  warn: 'bg-warn',
  bad: 'bg-bad',
  info: 'bg-info',
  idle: 'bg-idle',
  accent: 'bg-accent',
}

const nodeTones: Record<string, Tone> = {
  active: 'ok',
  enrolling: 'info',
  bootstrap_issued: 'info',
  draining: 'info',
  offline: 'bad',
  quarantined: 'warn',
  retired: 'idle',
  removing: 'idle',
  deleted: 'idle',
} satisfies Record<States['NodeState'], Tone>

const jobStatusTones = {
  pending: 'idle',
  running: 'info',
  compensating: 'info',
  completed: 'ok',
  reconciled: 'ok',
  failed_retryable: 'warn',
  failed_manual_intervention: 'bad',
  cancelled: 'idle',
} satisfies Record<States['JobState'], Tone>

// What reached its goal and did less than it was asked for is not green.
const jobTones: Record<string, Tone> = { ...jobStatusTones, completed_with_gaps: 'warn', reconciled_with_gaps: 'warn' }

/** outcomeTone is the colour of what was done whole, or with gaps. */
export const outcomeTone: Record<States['CertificateView']['outcome'], Tone> = { clean: 'ok', with_gaps: 'warn' }

const severityTones: Record<string, Tone> = { critical: 'bad', warning: 'warn', info: 'info', debug: 'idle' }

const taskStatusTones = { queued: 'idle', dispatched: 'info', succeeded: 'ok', failed: 'bad', expired: 'warn', cancelled: 'idle' } satisfies Record<States['NodeTaskState'], Tone>

// A task that had nothing to do is no success.
const taskTones: Record<string, Tone> = { ...taskStatusTones, not_applicable: 'idle' }

const driftTones: Record<string, Tone> = {
  in_sync: 'ok',
  version_drift: 'warn',
  config_drift: 'warn',
  certificate_only_repair_needed: 'bad',
  unknown: 'idle',
}

const resultTones: Record<string, Tone> = { success: 'ok', failure: 'bad', denied: 'warn' }

const tones = { node: nodeTones, job: jobTones, severity: severityTones, task: taskTones, drift: driftTones, result: resultTones }

export type Noun = keyof typeof tones

export function toneOf(noun: Noun, state: string): Tone {
  return tones[noun][state] ?? 'idle'
}

const labels: Record<string, string> = {
  in_sync: 'Current',
  version_drift: 'Outdated',
  config_drift: 'Config drift',
  certificate_only_repair_needed: 'Cert repair',
  unknown: 'Unknown build',
  failed_retryable: 'parked: can go on',
  failed_manual_intervention: 'parked: needs you',
  bootstrap_issued: 'awaiting agent',
}

/** words turns a state as programs spell it into one for people. */
export function words(state: string): string {
  return labels[state] ?? state.replaceAll('_', ' ')
}
