import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { api, got, type Schemas } from '../../api/client'
import { useParam } from '../../app/location'
import { useMay } from '../../app/session'
import { Badge, Button, Card, Code, Empty, Facts, LinkButton, Loading, Note, Page, State, TextLink } from '../../ui/basics'
import { ProblemNote } from '../../ui/problem'
import { When } from '../../ui/time'
import { Advice, FindingCard } from './FindingCard'
import type { Resolution } from './findings'
import { ResolveDialog } from './ResolveDialog'
import { JobLink } from './RunReport'

type Detail = Schemas['ReconciliationDriftDetailView']

/** NodeDrift is everything that is not as it should be about one node, and what was. */
export default function NodeDrift() {
  const nodeId = useParam('nodeId')
  const may = useMay()
  const [resolving, setResolving] = useState<{ as?: Resolution }>()
  const drift = useQuery({
    queryKey: ['drift', 'node', nodeId],
    queryFn: () => got(api.GET('/api/v1/admin/reconciliation/drift/{node_id}', { params: { path: { node_id: nodeId } } })),
    refetchInterval: 10_000,
  })
  const n = drift.data
  return (
    <Page
      back={<TextLink to="/drift">Drift</TextLink>}
      title={
        <>
          {n?.hostname ?? 'Node'}
          {n && <State of="node" is={n.node_status} />}
          {n?.severity && <State of="severity" is={n.severity} />}
        </>
      }
      actions={
        n && (
          <>
            <LinkButton to={`/nodes/${nodeId}`}>The node</LinkButton>
            {may('reconciliation:manage') && (
              <Button look="primary" onClick={() => setResolving({})}>
                Resolve …
              </Button>
            )}
          </>
        )
      }
    >
      {drift.error && <ProblemNote error={drift.error} onRetry={() => void drift.refetch()} />}
      {drift.isPending && <Loading what="the node" />}
      {n && <Found node={n} onResolve={(as) => setResolving({ as })} />}
      {n && resolving && <ResolveDialog node={n} first={resolving.as} onClose={() => setResolving(undefined)} />}
    </Page>
  )
}

function Found({ node: n, onResolve }: { node: Detail; onResolve: (resolution: Resolution) => void }) {
  return (
    <>
      {n.held_by && (
        <Note tone="info" title="A job is working on this node">
          <p>
            Findings are left to it: <JobLink job={n.held_by} />
          </p>
        </Note>
      )}
      <div className="grid gap-4 lg:grid-cols-2">
        <Card title="Known state">
          <Facts
            of={[
              ['Site', <TextLink key="s" to={`/sites/${n.site_id}`}>{n.site_name}</TextLink>],
              ['MAAS machine', <Code key="m">{n.maas_system_id}</Code>],
              ['MAAS shows', n.maas_status ? `${n.maas_status}${n.maas_power_state ? `, power ${n.maas_power_state}` : ''}` : undefined],
              ['Last check', <When key="l" at={n.last_reconciled_at} />],
              ['Accepts new work', n.schedulable ? <Badge tone="ok">yes</Badge> : <Badge tone="warn">no</Badge>],
              ['Held because', n.hold_reason],
            ]}
          />
        </Card>
        <Card title="What to do">
          {n.advice.length > 0 ? <Advice of={n.advice} nodeId={n.node_id} onResolve={onResolve} /> : <p className="text-sm text-muted">{n.drifted ? 'Read the findings.' : 'Nothing: the node is as expected.'}</p>}
        </Card>
      </div>
      <section aria-label="Findings" className="flex flex-col gap-2">
        <h2 className="text-sm font-semibold">Findings</h2>
        {n.findings.length === 0 && <Empty title="No findings">The last check showed the machine as expected.</Empty>}
        {n.findings.map((f) => (
          <FindingCard key={f.finding_id} finding={f} ofNode advised={f.advice.every((a) => n.advice.some((b) => b.what === a.what))} />
        ))}
      </section>
      {n.history.length > 0 && (
        <section aria-label="History" className="flex flex-col gap-2">
          <h2 className="text-sm font-semibold">Closed findings</h2>
          {n.history.map((f) => (
            <FindingCard key={f.finding_id} finding={f} ofNode />
          ))}
        </section>
      )}
    </>
  )
}
