import { useQuery } from '@tanstack/react-query'
import { Navigate } from '@tanstack/react-router'
import { api, asRefusal, got } from '../../api/client'
import { useSearchState } from '../../app/location'
import { Empty, LinkButton, Loading, Page, TextLink } from '../../ui/basics'
import { ProblemNote } from '../../ui/problem'

/** NamedNode leads from a host name in the address to the node that has it. */
export function NamedNode({ name }: { name: string }) {
  const [search] = useSearchState()
  const found = useQuery({
    queryKey: ['nodes', 'named', name],
    queryFn: () => got(api.GET('/api/v1/admin/nodes', { params: { query: { hostname: name.toLowerCase(), page_size: 1, sort: 'hostname' } } })),
  })
  if (found.isPending) return <Loading what="the node" />
  const node = found.data?.items.find((n) => n.hostname === name.toLowerCase())
  if (node) return <Navigate to={`/nodes/${node.node_id}`} search={search} replace />
  if (found.error) return <Unread error={found.error} onRetry={() => void found.refetch()} />
  return <NoSuchNode called={name} />
}

/** Unread says why a node is not shown. What does not exist is not there at the next try either. */
export function Unread({ error, onRetry }: { error: unknown; onRetry: () => void }) {
  if (asRefusal(error).problem.status === 404) return <NoSuchNode />
  return (
    <Page title="Node" back={<TextLink to="/nodes">Nodes</TextLink>}>
      <ProblemNote error={error} onRetry={onRetry} />
    </Page>
  )
}

function NoSuchNode({ called }: { called?: string }) {
  return (
    <Page title="Node" back={<TextLink to="/nodes">Nodes</TextLink>}>
      <Empty
        title={called ? `There is no node called ${called}` : 'There is no such node'}
        action={
          <>
            {called && (
              <LinkButton to="/nodes" search={{ q: called }}>
                Search for {called}
              </LinkButton>
            )}
            <LinkButton to="/nodes" look="primary">
              Go to all nodes
            </LinkButton>
          </>
        }
      >
        It may have been removed, or it has another name.
      </Empty>
    </Page>
  )
}
