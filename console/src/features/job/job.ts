import type { Schemas } from '../../api/client'

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
> & { failure?: Failure; site_id?: string }

export type Failure = Omit<Schemas['OnboardingFailureView'], 'failure_class'> & { failure_class: string }

export type JobStatus = Job['status']

export type Stage = Pick<Schemas['OnboardingStageView'], 'number' | 'name' | 'title' | 'detour' | 'does' | 'expects' | 'usually' | 'typical_seconds'>

export type LedgerEvent = Schemas['OnboardingEventView']

export type ActionName = Schemas['OnboardingExplainedAction']['action']

export type ExplainedAction = Schemas['OnboardingExplainedAction']

/** What an event of the stream says about a job. */
export type JobHappening = {
  batch_id?: string
  status: JobStatus
  stage: string
  attempt: number
  stage_status?: LedgerEvent['status']
  failure_class?: string
  error_code?: string
  message?: string
  recommended_action?: string
}

export const isParked = (s: JobStatus) => s === 'failed_retryable' || s === 'failed_manual_intervention'

export const isOver = (s: JobStatus) => s === 'completed' || s === 'cancelled' || s === 'reconciled'

export const isBusy = (s: JobStatus) => s === 'running' || s === 'compensating'

export const statuses: JobStatus[] = ['pending', 'running', 'compensating', 'failed_retryable', 'failed_manual_intervention', 'completed', 'reconciled', 'cancelled']

/** Choices for a filter of lists: both parked ones count as failed for the control plane. */
export const statusChoices = [
  { value: '', label: 'Any status' },
  { value: 'failed', label: 'Parked' },
  { value: 'pending', label: 'Pending' },
  { value: 'running', label: 'Running' },
  { value: 'compensating', label: 'Compensating' },
  { value: 'completed', label: 'Completed' },
  { value: 'reconciled', label: 'Reconciled' },
  { value: 'cancelled', label: 'Cancelled' },
]

const actionTitles: Record<ActionName, string> = {
  retry_stage: 'Retry the stage',
  resume: 'Resume',
  rerun: 'Rerun all stages',
  restart_clean: 'Restart clean',
  cancel: 'Cancel',
  adopt_observed_state: 'Adopt what is there',
  mark_manual_intervention_required: 'Stop the automation',
}

export function actionTitle(action: string): string {
  return action in actionTitles ? actionTitles[action as ActionName] : action.replaceAll('_', ' ')
}

/** whileItLasts has a job read now and then until it is over: its explanation says how long things have taken. */
export function whileItLasts(query: { state: { data?: { status: JobStatus } } }): number | false {
  const { data } = query.state
  return data && !isOver(data.status) ? 15_000 : false
}
