import { api, got } from '../../api/client'

/** allocationQuery reads one allocation, whichever project it is of. */
export const allocationQuery = (id: string) => ({ queryKey: ['allocations', 'one', id], queryFn: () => got(api.GET('/api/v1/allocations/{allocation_id}', { params: { path: { allocation_id: id } } })) })

/** inCommas writes a list of states as the control plane reads it: in one parameter, with commas. */
export const inCommas = { array: { style: 'form', explode: false } } as const
