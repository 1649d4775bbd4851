import { useQuery } from '@tanstack/react-query'
import { api, versioned } from '../../api/client'

/** useProjectName names a project with its tenant; while it is read, and where it may not be, it is not known. */
export function useProjectName(projectId: string | undefined): string | undefined {
  const project = useQuery({ queryKey: ['projects', 'one', projectId], queryFn: () => versioned(api.GET('/api/v1/projects/{project_id}', { params: { path: { project_id: projectId ?? '' } } })), enabled: !!projectId }).data?.body
  const tenant = useQuery({ queryKey: ['tenants', 'one', project?.org_id], queryFn: () => versioned(api.GET('/api/v1/tenants/{org_id}', { params: { path: { org_id: project?.org_id ?? '' } } })), enabled: !!project }).data?.body
  return project && (tenant ? `${tenant.name} / ${project.name}` : project.name)
}
