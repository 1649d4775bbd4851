import { enums } from '../../api/gen/enums'
import type { Schemas } from '../../api/client'
import { jobFamilies, jobPath, type JobFamily, type JobIds } from '../../api/jobs'

/**
 * Onboardings and turnovers are jobs: they go through stages, park when they
 * fail, and are recovered with the same actions. What both have is here.
 */
export type Job = Pick<
  Schemas['OnboardingView'],
  | 'hostname'
  | 'node_id'
  | 'batch_id'
  | 'status'
  | 'current_stage'
  | 'current_attempt'
  | 'stage_number'
  | 'stage_total'
  | 'requested_at'
  | 'requested_by'
  | 'admitted_at'
  | 'started_at'
  | 'stage_started_at'
  | 'parked_at'
  | 'completed_at'
  | 'updated_at'
  | 'recommended_action'
  | 'pending_action'
  | 'observed'
  | 'epoch'
  | 'adopted'
  | 'correlation_id'
  | 'workflow_id'
> & { failure?: Failure; outcome?: Schemas['DecommissionView']['outcome']; site_id?: string } & JobIds

/** What tells one kind of jobs from the other: the noun of its addresses, and what its pages call it and what it is done to. */
export type Kind = { noun: JobFamily; title: string; job: string; unit: string }

export const pathOf = (kind: Kind, id: string) => jobPath({ kind: kind.noun, id })

export const batchPathOf = (kind: Kind, id: string) => `/${kind.noun}-batches/${id}`

/** idOf is the id of a job, or of the job that an event is about. */
export const idOf = (job: JobIds) => jobFamilies.map((f) => job[`${f}_id` as const]).find(Boolean) ?? ''

/** named is a job as a request about many names it: one that somebody acted on since it was read is refused. */
export const named = (job: Job): Schemas['JobNamedJob'] => ({ job_id: idOf(job), epoch: job.epoch })

/** What became of an action on many jobs. */
export type Acted = Schemas['JobManyView']

/** What batches of both kinds have. */
export type Batch = Omit<Schemas['OnboardingBatchView'], 'site_id' | 'profile_id' | 'sku_id'>

export type BatchState = Batch['state']

export type Failure = Omit<Schemas['OnboardingFailureView'], 'failure_class'> & { failure_class: string }

export type JobStatus = Job['status']

export type Stage = Pick<Schemas['OnboardingStageView'], 'number' | 'name' | 'title' | 'detour' | 'does' | 'expects' | 'usually' | 'typical_seconds'>

export type LedgerEvent = Schemas['OnboardingEventView']

export type ActionName = Schemas['OnboardingExplainedAction']['action']

export type ExplainedAction = Schemas['OnboardingExplainedAction']

/** A job with everything about it. */
export type JobDetail = Job & {
  explanation: Pick<Schemas['OnboardingExplanation'], 'summary' | 'expected' | 'observed' | 'observed_since' | 'waiting_since' | 'likely_cause' | 'remedy' | 'status' | 'actions'>
  events: LedgerEvent[]
  facts?: unknown
}

/** What an event of the stream says about a job. */
export type JobHappening = JobIds & {
  batch_id?: string
  status: JobStatus
  stage: string
  attempt: number
  epoch?: number
  stage_status?: LedgerEvent['status']
  failure_class?: string
  error_code?: string
  message?: string
  recommended_action?: string
  outcome?: Job['outcome']
}

/** standingOf is the status of a job, and of one that reached its goal whether it did so with gaps. */
export const standingOf = (job: Pick<Job, 'status' | 'outcome'>) => (job.outcome === 'with_gaps' ? `${job.status}_with_gaps` : job.status)

const parked: readonly JobStatus[] = enums['OnboardingFailureModeView.status']

export const isParked = (s: JobStatus) => parked.includes(s)

export const isOver = (s: JobStatus) => s === 'completed' || s === 'cancelled' || s === 'reconciled'

export const isBusy = (s: JobStatus) => s === 'running' || s === 'compensating'

/** Choices for a filter of lists: both parked ones count as failed for the control plane. */
export const statusChoices = [
  { value: '', label: 'Any status' },
  { value: 'failed', label: 'Parked' },
  ...enums['OnboardingView.status'].filter((s) => !isParked(s)).map((s) => ({ value: s, label: s.charAt(0).toUpperCase() + s.slice(1) })),
]

/** What each action is called, and where it is asked for below the address of a job. */
export const actions = {
  retry_stage: { title: 'Retry the stage', path: 'retry' },
  resume: { title: 'Resume', path: 'resume' },
  rerun: { title: 'Rerun all stages', path: 'rerun' },
  restart_clean: { title: 'Restart clean', path: 'restart-clean' },
  cancel: { title: 'Cancel', path: 'cancel' },
  adopt_observed_state: { title: 'Adopt the observed state', path: 'adopt' },
  mark_manual_intervention_required: { title: 'Stop the automation', path: 'mark-manual-intervention' },
} as const satisfies Record<ActionName, { title: string; path: string }>

export function actionTitle(action: string): string {
  return action in actions ? actions[action as ActionName].title : action.replaceAll('_', ' ')
}

/** whileItLasts has a job read now and then until it is over: its explanation says how long things have taken. */
export function whileItLasts(query: { state: { data?: { status: JobStatus } } }): number | false {
  const { data } = query.state
  return data && !isOver(data.status) ? 15_000 : false
}
