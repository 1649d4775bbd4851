import { useNavigate } from '@tanstack/react-router'
import { api, got, type Schemas } from '../../api/client'
import { usePages } from '../../api/pages'
import { Badge, Empty, Loading, State, TextLink } from '../../ui/basics'
import { ProblemNote } from '../../ui/problem'
import { Table, type Column } from '../../ui/table'
import { When } from '../../ui/time'
import { oftenIs, ordinal, type Severity } from './findings'

type Drifted = Schemas['ReconciliationDriftView']

const often = (n: Drifted) => Math.max(0, ...n.findings.map((f) => f.occurrence))

const columns: Column<Drifted>[] = [
  { key: 'severity', title: 'Severity', width: '5.5rem', cell: (n) => n.severity && <State of="severity" is={n.severity} /> },
  { key: 'hostname', title: 'Node', width: 'minmax(8rem, 1fr)', cell: (n) => <TextLink to={`/drift/${n.node_id}`}>{n.hostname}</TextLink> },
  {
    key: 'finding',
    title: 'Worst finding',
    width: 'minmax(14rem, 2fr)',
    cell: (n) => (
      <>
        {often(n) >= oftenIs && <Badge tone="warn">{ordinal(often(n))} time</Badge>} {n.findings[0]?.title}
        {n.findings.length > 1 && <span className="text-muted"> and {n.findings.length - 1} more</span>}
      </>
    ),
  },
  { key: 'since', title: 'Since', width: '6.5rem', cell: (n) => n.findings[0] && <When at={n.findings[0].opened_at} /> },
  { key: 'status', title: 'State', width: '7.5rem', cell: (n) => <State of="node" is={n.node_status} /> },
  { key: 'sched', title: 'New work', width: '6.5rem', cell: (n) => (n.schedulable ? 'yes' : <span title={n.hold_reason}>none</span>) },
  { key: 'maas', title: 'MAAS shows', width: '11.5rem', cell: (n) => [n.maas_status, n.maas_power_state && `power ${n.maas_power_state}`].filter(Boolean).join(', ') },
  { key: 'site', title: 'Site', width: '6rem', cell: (n) => n.site_name },
  { key: 'looked', title: 'Last check', width: '6.5rem', cell: (n) => <When at={n.last_reconciled_at} /> },
]

/** DriftedNodes lists the nodes that are not as expected, the worst first. */
export function DriftedNodes({ site, severity, type, repeated }: { site?: string; severity?: string; type?: string; repeated: boolean }) {
  const navigate = useNavigate()
  const pages = usePages(
    ['drift', 'nodes', site, severity, type, repeated],
    (cursor) => got(api.GET('/api/v1/admin/reconciliation/drift', { params: { query: { site_id: site, severity: severity as Severity | undefined, type, repeated: repeated || undefined, cursor, page_size: 100 } } })),
    { refetchInterval: 15_000 },
  )
  if (pages.error && pages.rows.length === 0) return <ProblemNote error={pages.error} onRetry={pages.retry} />
  if (pages.loading) return <Loading what="nodes" />
  const filtered = site ?? severity ?? type ?? repeated
  return (
    <>
      {pages.error && <ProblemNote error={pages.error} onRetry={pages.retry} />}
      <Table
        label="Nodes that drifted"
        columns={columns}
        rows={pages.rows}
        rowKey={(n) => n.node_id}
        onOpen={(n) => void navigate({ to: `/drift/${n.node_id}` })}
        more={pages.more}
        stale={pages.stale}
        empty={
          filtered ? (
            <Empty title="No node matches these filters">Remove a filter to see more.</Empty>
          ) : (
            <Empty title="Every node is as expected">Nodes are listed here when MAAS, their agent and the inventory disagree, with what happened and what you can do.</Empty>
          )
        }
      />
      {pages.readAt > 0 && (
        <p className="text-xs text-muted">
          As of <When at={new Date(pages.readAt).toISOString()} />
        </p>
      )}
    </>
  )
}
