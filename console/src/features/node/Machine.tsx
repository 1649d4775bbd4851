import { useQuery } from '@tanstack/react-query'
import { api, asRefusal, got } from '../../api/client'
import { useMay } from '../../app/session'
import { Card, Code, Facts, LinkButton, Note, TextLink } from '../../ui/basics'
import { ProblemNote } from '../../ui/problem'
import { When } from '../../ui/time'
import { words } from '../../ui/tone'
import type { Known } from './queries'

/** useBinding is the machine of MAAS that a node is, as reconciliation last saw it; null where it is bound to none. */
export function useBinding(nodeId: string, enabled: boolean) {
  return useQuery({
    queryKey: ['drift', 'binding', nodeId],
    queryFn: async () => {
      try {
        return await got(api.GET('/api/v1/admin/reconciliation/drift/{node_id}', { params: { path: { node_id: nodeId } } }))
      } catch (error) {
        if ([404, 409].includes(asRefusal(error).status)) return null
        throw error
      }
    },
    enabled,
    refetchInterval: 15_000,
  })
}

/** Machine is how the node is seen from outside: which machine of MAAS it is, and how MAAS shows it. */
export function Machine({ node, past }: { node: Known; past: boolean }) {
  const may = useMay()
  const binding = useBinding(node.node_id, !past && node.onboarding_mode === 'maas' && may('reconciliation:read'))
  const bound = past ? null : binding.data
  const { observed } = node
  if (!bound && !observed && node.onboarding_mode === 'manual') {
    return (
      <Card title="Machine">
        <p className="text-sm text-muted">This node was added by hand. It has no MAAS machine, so gpuaas cannot check its power and installation.</p>
      </Card>
    )
  }
  if (past && !observed) {
    return (
      <Card title="Machine in MAAS">
        <p className="text-sm text-muted">At that time it had not been compared with MAAS yet.</p>
      </Card>
    )
  }
  return (
    <Card title="Machine in MAAS" actions={bound && <LinkButton look="quiet" to="/drift/$nodeId" params={{ nodeId: node.node_id }}>Drift</LinkButton>}>
      {binding.error && <ProblemNote error={binding.error} onRetry={() => void binding.refetch()} />}
      {binding.data === null && !past && (
        <Note tone="info">It is not bound to a MAAS machine at the moment.</Note>
      )}
      <Facts
        of={[
          ...(past
            ? []
            : ([
                ['Site', bound ? <TextLink key="s" to="/sites/$siteId" params={{ siteId: bound.site_id }}>{bound.site_name}</TextLink> : undefined],
                ['System id', bound ? <Code key="i">{bound.maas_system_id}</Code> : undefined],
                ['Last checked', bound ? <When key="w" at={bound.last_reconciled_at} /> : undefined],
              ] as [string, React.ReactNode][])),
          ['Status', bound?.maas_status ?? (observed ? observed.status || 'MAAS has no such machine' : undefined)],
          ['Power', bound?.maas_power_state ?? observed?.power],
          ['Addresses', observed?.addresses.length ? observed.addresses.join(', ') : undefined],
          ['Last change', observed ? <span key="o"><When at={observed.seen_at} exactly={past} />, according to {observed.provider}</span> : undefined],
          ['Differences', observed ? (observed.findings.length ? observed.findings.map(words).join(', ') : 'none') : undefined],
        ]}
      />
    </Card>
  )
}
