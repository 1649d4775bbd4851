import { api, got } from '../../api/client'

/** allocationQuery reads one allocation, whichever project it is of. */
export const allocationQuery = (id: string) => ({ queryKey: ['allocations', 'one', id], queryFn: () => got(api.GET('/api/v1/allocations/{allocation_id}', { params: { path: { allocation_id: id } } })) })
