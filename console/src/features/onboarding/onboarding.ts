import { useQuery } from '@tanstack/react-query'
import { api, got, type Schemas } from '../../api/client'
import { actions, named, type Acted, type ActionName, type Job, type Kind, type Stage } from '../job/job'

export type Onboarding = Schemas['OnboardingView']
export type OnboardingBatch = Schemas['OnboardingBatchView']

/** The words of onboarding. */
export const onboarding: Kind = { noun: 'onboarding', title: 'Onboarding', job: 'Onboarding', unit: 'Machine' }

const none: Stage[] = []

/** useStages is the stages that onboardings go through, and how long each takes at a site. */
export function useStages(siteId?: string): Stage[] {
  const query = useQuery({
    queryKey: ['onboarding-stages', siteId ?? ''],
    queryFn: async () => (await got(api.GET('/api/v1/admin/onboarding-stages', { params: { query: { site_id: siteId } } }))).items,
    staleTime: 60_000,
    refetchInterval: 60_000, // how long stages typically take is learned while they are watched
  })
  return query.data ?? none
}

/** recover asks for an action of an operator. */
export function recover(id: string, action: ActionName, reason: string): Promise<unknown> {
  return got(api.POST(`/api/v1/admin/onboardings/{onboarding_id}/${actions[action].path}`, { params: { path: { onboarding_id: id } }, body: { reason } }))
}

/** recoverMany asks for the same action about many jobs at once. */
export function recoverMany(jobs: Job[], action: ActionName, reason: string): Promise<Acted> {
  return got(api.POST('/api/v1/admin/onboardings/actions', { body: { action, reason, jobs: jobs.map(named) } }))
}

/** explain says how a job stands, and what can be done about it. */
export async function explain(id: string) {
  return (await got(api.GET('/api/v1/admin/onboardings/{onboarding_id}', { params: { path: { onboarding_id: id } } }))).explanation
}
