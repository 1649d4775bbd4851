import { useQuery } from '@tanstack/react-query'
import { api, got, type Schemas } from '../../api/client'
import type { ActionName, Stage } from '../job/job'

export type Onboarding = Schemas['OnboardingView']
export type OnboardingBatch = Schemas['OnboardingBatchView']

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
  const asked = { params: { path: { onboarding_id: id } }, body: { reason } }
  switch (action) {
    case 'retry_stage':
      return got(api.POST('/api/v1/admin/onboardings/{onboarding_id}/retry', asked))
    case 'resume':
      return got(api.POST('/api/v1/admin/onboardings/{onboarding_id}/resume', asked))
    case 'rerun':
      return got(api.POST('/api/v1/admin/onboardings/{onboarding_id}/rerun', asked))
    case 'restart_clean':
      return got(api.POST('/api/v1/admin/onboardings/{onboarding_id}/restart-clean', asked))
    case 'cancel':
      return got(api.POST('/api/v1/admin/onboardings/{onboarding_id}/cancel', asked))
    case 'adopt_observed_state':
      return got(api.POST('/api/v1/admin/onboardings/{onboarding_id}/adopt', asked))
    case 'mark_manual_intervention_required':
      return got(api.POST('/api/v1/admin/onboardings/{onboarding_id}/mark-manual-intervention', asked))
  }
}
