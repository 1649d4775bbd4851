import { useQuery } from '@tanstack/react-query'
import { api, got, type Schemas } from '../../api/client'
import { largestPage, readAll } from '../../api/readall'

const none: Schemas['SkuView'][] = []

/** useOffered is the SKUs, for choices; everybody who holds a role anywhere may see them. */
export function useOffered() {
  const query = useQuery({
    queryKey: ['skus', 'offered', 'all'],
    queryFn: () => readAll((cursor) => got(api.GET('/api/v1/admin/skus', { params: { query: { cursor, page_size: largestPage } } }))),
    staleTime: 30_000,
  })
  return { skus: query.data?.rows ?? none, error: query.error, pending: query.isPending, retry: () => void query.refetch() }
}
