import { api, got } from '../../api/client'

/** Owner is whose quotas are looked at: a tenant's, or those that one of its projects is held to. */
export type Owner = { orgId: string; projectId?: string }

/** quotasKey names what was read of the quotas of somebody. */
export const quotasKey = ({ orgId, projectId }: Owner) => ['quotas', projectId ?? orgId]

/** readQuotas reads a page of them. Those of a project come with those of its tenant. */
export function readQuotas({ orgId, projectId }: Owner, cursor: string | undefined) {
  const query = { cursor, page_size: 100 }
  return projectId ? got(api.GET('/api/v1/projects/{project_id}/quotas', { params: { path: { project_id: projectId }, query } })) : got(api.GET('/api/v1/tenants/{org_id}/quotas', { params: { path: { org_id: orgId }, query } }))
}
