import { isParked, type ActionName, type Job } from './job'

/** Jobs that are parked at one stage for one cause, and what is recommended for all of them. */
export type Alike = { key: string; stage: string; code: string; action: ActionName; jobs: Job[] }

// What destroys or gives up something is decided job by job.
const together: ActionName[] = ['retry_stage', 'resume', 'rerun', 'adopt_observed_state']

/** alike groups parked jobs by what they have in common, the largest group first. */
export function alike(jobs: Job[]): Alike[] {
  const groups = new Map<string, Alike>()
  for (const job of jobs) {
    const action = together.find((a) => a === job.recommended_action)
    if (!isParked(job.status) || !action || job.pending_action) continue
    const code = job.failure?.error_code ?? ''
    const key = [job.current_stage, code, action].join(' ')
    const group = groups.get(key) ?? { key, stage: job.current_stage, code, action, jobs: [] }
    group.jobs.push(job)
    groups.set(key, group)
  }
  return [...groups.values()].sort((a, b) => b.jobs.length - a.jobs.length)
}
