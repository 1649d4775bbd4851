import { useQuery } from '@tanstack/react-query'
import { api, got } from '../../api/client'
import { largestPage, readAll } from '../../api/readall'
import type { Selector } from './selector'

/**
 * useFitting is the nodes that a selector means. The control plane decides; this shows
 * beforehand whom it is going to be about.
 */
export function useFitting(selector: Selector | undefined) {
  return useQuery({
    queryKey: ['nodes', 'fitting', selector],
    enabled: selector !== undefined,
    // What fitted when the same was chosen some time ago may be other nodes by now.
    gcTime: 0,
    queryFn: async () => {
      const query = { site_id: selector?.site_id, region_code: selector?.region_code, sku: selector?.sku_id, hostname: selector?.hostname_prefix, statuses: selector?.statuses, page_size: largestPage }
      const { rows } = await readAll((cursor) => got(api.GET('/api/v1/admin/nodes', { params: { query: { ...query, cursor } } })))
      return selector?.node_ids ? rows.filter((n) => selector.node_ids?.includes(n.node_id)) : rows
    },
  })
}
