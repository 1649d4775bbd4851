import { useQuery } from '@tanstack/react-query'
import { api, versioned } from '../../api/client'

/** useTenant is a tenant with the version that a change has to name. */
export function useTenant(orgId: string) {
  return useQuery({ queryKey: ['tenants', 'one', orgId], queryFn: () => versioned(api.GET('/api/v1/tenants/{org_id}', { params: { path: { org_id: orgId } } })) })
}

/** useProject is a project with the version that a change has to name. */
export function useProject(projectId: string) {
  return useQuery({ queryKey: ['projects', 'one', projectId], queryFn: () => versioned(api.GET('/api/v1/projects/{project_id}', { params: { path: { project_id: projectId } } })) })
}
