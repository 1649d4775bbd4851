import { useQuery } from '@tanstack/react-query'
import { api, versioned } from '../../api/client'

/** TenantName names a tenant; while it is read, and where it may not be, it is the id. */
export function TenantName({ id }: { id: string }) {
  const tenant = useQuery({ queryKey: ['tenants', 'one', id], queryFn: () => versioned(api.GET('/api/v1/tenants/{org_id}', { params: { path: { org_id: id } } })) })
  return <>{tenant.data?.body.name ?? id}</>
}
