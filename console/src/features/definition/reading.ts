import { useQuery } from '@tanstack/react-query'
import { api, got } from '../../api/client'
import { largestPage, readAll } from '../../api/readall'

/** useCatalog is everything that can be run, all versions of it. */
export function useCatalog() {
  return useQuery({
    queryKey: ['operation-definitions', 'catalog'],
    queryFn: async () => (await readAll((cursor) => got(api.GET('/api/v1/operation-definitions', { params: { query: { cursor, page_size: largestPage } } })))).rows,
  })
}

/** useDefinition is one version of what can be run. */
export function useDefinition(id: string | undefined) {
  return useQuery({
    queryKey: ['operation-definitions', 'one', id],
    queryFn: () => got(api.GET('/api/v1/operation-definitions/{definition_id}', { params: { path: { definition_id: id ?? '' } } })),
    enabled: !!id,
    staleTime: 60_000,
  })
}
