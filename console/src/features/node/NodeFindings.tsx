import { api, got, type Schemas } from '../../api/client'
import { usePages } from '../../api/pages'
import { Badge, Button, Empty, LinkButton, Loading, State } from '../../ui/basics'
import { ProblemNote } from '../../ui/problem'
import { Elapsed, When } from '../../ui/time'
import { words } from '../../ui/tone'
import type { Detail } from './queries'

type Finding = Schemas['ReconciliationFindingView']

/** NodeFindings is in what MAAS, the agent and the inventory disagree about a node, now and before. */
export function NodeFindings({ node }: { node: Detail }) {
  const findings = usePages(['drift', 'findings-of-node', node.node_id], (cursor) => got(api.GET('/api/v1/admin/reconciliation/findings', { params: { query: { node_id: node.node_id, cursor, page_size: 50 } } })))
  if (findings.loading) return <Loading what="findings" />
  const present = findings.rows.filter((f) => f.status !== 'closed')
  const over = findings.rows.filter((f) => f.status === 'closed')
  return (
    <div className="flex flex-col gap-4">
      {findings.error && <ProblemNote error={findings.error} onRetry={findings.retry} />}
      {!findings.error && findings.rows.length === 0 && (
        <Empty title="No findings yet">{node.onboarding_mode === 'maas' ? 'MAAS shows this node as expected. When that changes, it is listed here.' : 'It is not a MAAS machine, so there is nothing to compare it with.'}</Empty>
      )}
      {present.length > 0 && (
        <div className="flex flex-wrap items-center justify-between gap-2">
          <h2 className="text-sm font-semibold">Open ({present.length})</h2>
          <LinkButton look="primary" to="/drift/$nodeId" params={{ nodeId: node.node_id }}>
            Resolve the drift
          </LinkButton>
        </div>
      )}
      {present.map((f) => (
        <One key={f.finding_id} finding={f} />
      ))}
      {over.length > 0 && <h2 className="text-sm font-semibold">Closed</h2>}
      {over.map((f) => (
        <One key={f.finding_id} finding={f} />
      ))}
      {findings.more && <Button onClick={findings.more}>Show earlier findings</Button>}
    </div>
  )
}

function One({ finding: f }: { finding: Finding }) {
  const closed = f.status === 'closed'
  return (
    <article className="rounded-lg border border-line bg-surface p-4 text-sm">
      <header className="flex flex-wrap items-center gap-2">
        <State of="severity" is={f.severity} />
        <h3 className="font-semibold">{f.title}</h3>
        <Badge>{words(f.status)}</Badge>
        {f.occurrence > 1 && <Badge tone="warn">{f.occurrence} times within a month</Badge>}
        <span className="text-xs text-muted">
          for <Elapsed from={f.opened_at} to={f.closed_at} />
          {f.closed_at && (
            <>
              , closed <When at={f.closed_at} />
            </>
          )}
        </span>
      </header>
      <p className="mt-1">{f.message}</p>
      <dl className="mt-2 grid grid-cols-[max-content_minmax(0,1fr)] gap-x-6 gap-y-1">
        <dt className="text-muted">Expected</dt>
        <dd className="break-words">{f.expected}</dd>
        <dt className="text-muted">Observed</dt>
        <dd className="break-words">{f.observed}</dd>
        {!closed && (
          <>
            <dt className="text-muted">Meaning</dt>
            <dd>{f.means}</dd>
          </>
        )}
        {f.action && (
          <>
            <dt className="text-muted">{f.withheld ? 'Not done' : f.acted_at ? 'Action taken' : 'Next action'}</dt>
            <dd>
              {words(f.action)}
              {f.withheld ? `: ${f.withheld}` : f.action_note ? `: ${f.action_note}` : ''}
            </dd>
          </>
        )}
        {f.closed_because && (
          <>
            <dt className="text-muted">Closed because</dt>
            <dd>{f.closed_because}</dd>
          </>
        )}
      </dl>
    </article>
  )
}
