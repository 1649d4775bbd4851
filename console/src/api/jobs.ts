import { batchFamilies, jobFamilies, jobsOfNode } from './gen/enums'

export { batchFamilies, jobFamilies, jobsOfNode }

/** A kind of job. The contract lists them; nothing in the console does. */
export type JobFamily = (typeof jobFamilies)[number]

/** A kind of job that is asked for in batches as well. */
export type BatchFamily = (typeof batchFamilies)[number]

/** jobWord is what people call a job of a kind: what the API calls a decommission is a turnover to them. */
export function jobWord(kind: JobFamily): string {
  return kind === 'decommission' ? 'turnover' : kind
}

/** nodeJobFamilies are the kinds of jobs that are listed by node; jobsOfNode says by which parameter. */
export const nodeJobFamilies = Object.keys(jobsOfNode) as (keyof typeof jobsOfNode)[]

/** A job by its kind and id. */
export type NamedJob = { kind: JobFamily; id: string }

/** The field that holds the id of a job, by the kind of the job, such as onboarding_id. */
export type JobIds = { [F in JobFamily as `${F}_id`]?: string }

/** jobFamily is the kind of job of that name, if there is one. */
export const jobFamily = (name?: string): JobFamily | undefined => jobFamilies.find((f) => f === name)

/** jobPath is where a job has its page. */
export const jobPath = ({ kind, id }: NamedJob) => `/${kind}s/${id}`

/** jobNamed reads a job as the control plane writes it: its kind, something between, its id. */
export function jobNamed(text: string, between: string): NamedJob | undefined {
  const at = text.indexOf(between)
  const kind = jobFamily(text.slice(0, at))
  const id = text.slice(at + between.length)
  return kind && id ? { kind, id } : undefined
}
