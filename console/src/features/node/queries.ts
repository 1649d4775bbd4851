import { useQuery } from '@tanstack/react-query'
import { api, got, versioned, type Schemas } from '../../api/client'
import { usePages } from '../../api/pages'

/** A node as it is known, now or at a moment of the past. */
export type Known = Schemas['NodeKnownView']
export type Detail = Schemas['NodeDetailView']

const pathOf = (nodeId: string) => ({ node_id: nodeId })

/** useNode is a node with the entity tag that changes name. When it was last heard of is told by no event, so it is read now and then. */
export function useNode(nodeId: string) {
  return useQuery({
    queryKey: ['nodes', 'page', nodeId],
    queryFn: () => versioned(api.GET('/api/v1/admin/nodes/{node_id}', { params: { path: pathOf(nodeId) } })),
    refetchInterval: 10_000,
  })
}

/** useNodeAt is the node as it was; the past does not change. */
export function useNodeAt(nodeId: string, at: string | undefined) {
  return useQuery({
    queryKey: ['past', nodeId, at],
    queryFn: () => got(api.GET('/api/v1/admin/nodes/{node_id}/history', { params: { path: pathOf(nodeId), query: { at, page_size: 1 } } })),
    enabled: at !== undefined,
    staleTime: Infinity,
    placeholderData: (before) => before,
  })
}

/** useHistory is what happened to a node, newest first, until a moment or until now. */
export function useHistory(nodeId: string, at?: string) {
  return usePages(at ? ['past', nodeId, at, 'history'] : ['nodes', 'page', nodeId, 'history'], (cursor) =>
    got(api.GET('/api/v1/admin/nodes/{node_id}/history', { params: { path: pathOf(nodeId), query: { at, cursor, page_size: 200 } } })),
  )
}
