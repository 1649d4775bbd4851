import { api, got } from '../../api/client'

/** reconciliationQuery says of every site what reconciliation last learned there. */
export const reconciliationQuery = { queryKey: ['drift', 'site-standing'], queryFn: () => got(api.GET('/api/v1/admin/reconciliation/status')), refetchInterval: 15_000 }

/** fleetQuery counts the nodes of every site. */
export const fleetQuery = { queryKey: ['fleet', 'site-counts'], queryFn: () => got(api.GET('/api/v1/admin/fleet')) }
