import { Badge, Card } from '../../ui/basics'
import { Table, type Column } from '../../ui/table'
import { StepList } from '../definition/StepList'
import type { Plan } from './operation'

type Planned = Plan['targets'][number]

const columns: Column<Planned>[] = [
  { key: 'node', title: 'Node', width: 'minmax(9rem,0.6fr)', cell: (t) => <span className="font-medium">{t.hostname}</span> },
  { key: 'fits', title: 'Included', width: '6rem', cell: (t) => <Badge tone={t.fits ? 'ok' : 'warn'}>{t.fits ? 'fits' : 'left out'}</Badge> },
  { key: 'why', title: 'Why not, and what to do', width: 'minmax(14rem,2fr)', cell: (t) => <Why target={t} /> },
]

function Why({ target }: { target: Planned }) {
  const said = target.troubles.map((t) => (t.remedy ? `${t.message}: ${t.remedy}` : t.message)).join('; ')
  return <span title={said}>{said}</span>
}

/** PlanView is what a run would do: in sentences, by step and by node. */
export function PlanView({ plan }: { plan: Plan }) {
  // What cannot be done is what one looks for.
  const targets = [...plan.targets].sort((a, b) => Number(a.fits) - Number(b.fits))
  return (
    <Card title="The plan">
      <div className="flex flex-col gap-4">
        <ul className="list-disc pl-5 text-sm" aria-label="The plan in sentences">
          {plan.says.map((s) => (
            <li key={s}>{s}</li>
          ))}
        </ul>
        <Table label="Nodes of the plan" columns={columns} rows={targets} rowKey={(t) => t.node_id} />
        <details>
          <summary className="cursor-pointer text-sm font-medium">
            {plan.steps.length} {plan.steps.length === 1 ? 'step' : 'steps'}, and what the policy says
          </summary>
          <StepList steps={plan.steps.map((s) => ({ id: s.step_id, kind: s.step_kind, title: s.title, impact: s.impact }))} />
          <ul className="mt-2 flex flex-col gap-1 text-sm">
            {plan.policy.map((p) => (
              <li key={p.key}>
                <span className="text-muted">{p.key.replaceAll('_', ' ')}:</span> {p.value} <span className="text-muted">({p.rule})</span>
              </li>
            ))}
          </ul>
        </details>
      </div>
    </Card>
  )
}
