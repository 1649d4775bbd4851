import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { api, got } from '../../api/client'
import { useMay } from '../../app/session'
import { Badge, Button, Card, Facts, State, TextLink } from '../../ui/basics'
import { When } from '../../ui/time'
import { Announce } from './Announce'
import { called, current } from './allocation'
import { ProjectName } from './ProjectName'
import { inCommas } from './queries'

/** useOnNode is the allocation that has a node now; null: nobody rents it, undefined: not known. */
export function useOnNode(nodeId: string | undefined) {
  const may = useMay()
  return useQuery({
    queryKey: ['allocations', 'on', nodeId],
    queryFn: async () => (await got(api.GET('/api/v1/admin/allocations', { params: { query: { node_id: nodeId, status: current, page_size: 1 } }, querySerializer: inCommas }))).items[0] ?? null,
    enabled: nodeId !== undefined && may('allocation:read'),
    staleTime: 10_000,
  })
}

/** Tenant says who is on a node. */
export function Tenant({ nodeId }: { nodeId: string }) {
  const may = useMay()
  const [announcing, setAnnouncing] = useState(false)
  const a = useOnNode(nodeId).data
  if (a === undefined) return null
  return (
    <Card title="Tenant">
      {!a && <p className="text-sm text-muted">Nobody rents it now.</p>}
      {a && (
        <Facts
          of={[
            ['Project', <ProjectName key="p" id={a.project_id} />],
            ['Allocation', <span key="a" className="inline-flex flex-wrap items-center gap-2"><TextLink to={`/allocations/${a.allocation_id}`}>{called(a)}</TextLink><State of="allocation" is={a.status} />{a.protected && <Badge tone="accent">protected</Badge>}{a.repairing && <Badge tone="warn">repairing</Badge>}</span>],
            ['Requested by', a.requested_by_name ?? a.requested_by],
            ['Since', <When key="s" at={a.active_at ?? a.created_at} />],
            ['Ends', a.expires_at ? <When key="e" at={a.expires_at} /> : 'never'],
            ['Maintenance', a.maintenance ? <span key="m">{`${a.maintenance.kind}, ${a.maintenance.status.replace('_', ' ')}, by `}<When at={a.maintenance.due_at} /></span> : 'none announced'],
          ]}
        />
      )}
      {a && !a.maintenance && may('allocation:force') && (
        <Button className="mt-2" onClick={() => setAnnouncing(true)}>
          Announce maintenance …
        </Button>
      )}
      {a && announcing && <Announce allocation={a} onClose={() => setAnnouncing(false)} />}
    </Card>
  )
}
