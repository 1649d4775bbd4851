import { api, got, versioned } from '../../api/client'
import type { Body, Level } from './policy'

export const policiesKey = ['operation-policies'] as const

export const policyQuery = ({ orgId, projectId }: Level, operation_type: string) => ({
  queryKey: [...policiesKey, 'one', orgId, projectId, operation_type],
  queryFn: () => {
    if (projectId) return versioned(api.GET('/api/v1/projects/{project_id}/operation-policies/{operation_type}', { params: { path: { project_id: projectId, operation_type } } }))
    if (orgId) return versioned(api.GET('/api/v1/tenants/{org_id}/operation-policies/{operation_type}', { params: { path: { org_id: orgId, operation_type } } }))
    return versioned(api.GET('/api/v1/admin/operation-policies/{operation_type}', { params: { path: { operation_type } } }))
  },
})

export function putPolicy({ orgId, projectId }: Level, operation_type: string, etag: string, { hard_deny, ...body }: Body) {
  const header = { 'If-Match': etag }
  if (projectId) return got(api.PUT('/api/v1/projects/{project_id}/operation-policies/{operation_type}', { params: { path: { project_id: projectId, operation_type }, header }, body }))
  if (orgId) return got(api.PUT('/api/v1/tenants/{org_id}/operation-policies/{operation_type}', { params: { path: { org_id: orgId, operation_type }, header }, body }))
  return got(api.PUT('/api/v1/admin/operation-policies/{operation_type}', { params: { path: { operation_type }, header }, body: { ...body, hard_deny } }))
}

export function takeBack({ orgId, projectId }: Level, operation_type: string) {
  if (projectId) return got(api.DELETE('/api/v1/projects/{project_id}/operation-policies/{operation_type}', { params: { path: { project_id: projectId, operation_type } } }))
  if (orgId) return got(api.DELETE('/api/v1/tenants/{org_id}/operation-policies/{operation_type}', { params: { path: { org_id: orgId, operation_type } } }))
  return got(api.DELETE('/api/v1/admin/operation-policies/{operation_type}', { params: { path: { operation_type } } }))
}
