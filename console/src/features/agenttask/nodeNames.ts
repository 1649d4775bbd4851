import { useQuery } from '@tanstack/react-query'
import { api, got } from '../../api/client'
import { useMay } from '../../app/session'

/**
 * useNodeNames tells the names of nodes where a list has only their ids. They hardly
 * ever change, so they are read in one go once a minute and not with every event.
 */
export function useNodeNames(): (nodeId: string) => string {
  const may = useMay()
  const map = useQuery({
    enabled: may('node:read'),
    queryKey: ['node-names'],
    queryFn: async () => new Map((await got(api.GET('/api/v1/admin/fleet/map'))).nodes.map((n) => [n.node_id, n.hostname])),
    staleTime: 30_000,
    refetchInterval: 60_000,
  })
  return (nodeId) => map.data?.get(nodeId) ?? `${nodeId.slice(0, 13)}…`
}
