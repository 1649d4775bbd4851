import type { components } from '../api/gen/schema'
import { statesOf } from '../api/states'

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

const toned = (noun: 'balance' | 'node' | 'job' | 'node_task' | 'allocation' | 'maintenance' | 'operation' | 'operation_definition' | 'operation_target'): Record<string, Tone> => Object.fromEntries(statesOf(noun).map((s) => [s.name, s.tone]))

// What reached its goal and did less than it was asked for is not green.
const jobTones: Record<string, Tone> = { ...toned('job'), completed_with_gaps: 'warn', reconciled_with_gaps: 'warn' }

/** outcomeTone is the colour of what was done whole, or with gaps. */
export const outcomeTone: Record<States['CertificateView']['outcome'], Tone> = { clean: 'ok', with_gaps: 'warn' }

const severityTones: Record<string, Tone> = { critical: 'bad', warning: 'warn', info: 'info', debug: 'idle' }

// A task that had nothing to do is no success.
const taskTones: Record<string, Tone> = { ...toned('node_task'), not_applicable: 'idle' }

const driftTones: Record<string, Tone> = {
  in_sync: 'ok',
  version_drift: 'warn',
  config_drift: 'warn',
  certificate_only_repair_needed: 'bad',
  unknown: 'idle',
}

const resultTones: Record<string, Tone> = { success: 'ok', failure: 'bad', denied: 'warn' }

const tones = { balance: toned('balance'), operation: toned('operation'), operationTarget: toned('operation_target'), definition: toned('operation_definition'), node: toned('node'), allocation: toned('allocation'), maintenance: toned('maintenance'), job: jobTones, severity: severityTones, task: taskTones, drift: driftTones, result: resultTones }

export type Noun = keyof typeof tones

export function toneOf(noun: Noun, state: string): Tone {
  return tones[noun][state] ?? 'idle'
}

const labels: Record<string, string> = {
  in_sync: 'Current',
  version_drift: 'Outdated',
  config_drift: 'Config drift',
  certificate_only_repair_needed: 'Cert repair',
  unknown_build: 'Unknown build',
  failed_retryable: 'parked: can be retried',
  failed_manual_intervention: 'parked: needs you',
  bootstrap_issued: 'awaiting agent',
  auto_release_pending: 'ends soon',
}

/** words turns a state as programs spell it into one for people. */
export function words(state: string): string {
  return labels[state] ?? state.replaceAll('_', ' ')
}
