import { useQuery } from '@tanstack/react-query'
import { api, versioned } from '../../api/client'

/** useRentalSettings is how a tenant, or one of its projects, rents, with the version that a change has to name. */
export function useRentalSettings({ orgId, projectId }: { orgId: string; projectId?: string }) {
  return useQuery({
    queryKey: [projectId ? 'projects' : 'tenants', 'rental-settings', projectId ?? orgId],
    queryFn: () => (projectId ? versioned(api.GET('/api/v1/projects/{project_id}/rental-settings', { params: { path: { project_id: projectId } } })) : versioned(api.GET('/api/v1/tenants/{org_id}/rental-settings', { params: { path: { org_id: orgId } } }))),
  })
}
