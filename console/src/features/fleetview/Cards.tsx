import { useNavigate } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { jobFamilies } from '../../api/jobs'
import { titleAt } from '../../app/registry'
import { Stat } from '../../ui/basics'
import { agentCards, capacityCards, countOf, groups, type Summary } from '../node/filters'

const amount = new Intl.NumberFormat()

/** Cards is the fleet in numbers; each leads to the nodes, or the jobs, that it counts. */
export function Cards({ summary }: { summary: Summary }) {
  const navigate = useNavigate()
  const nodes = (search: Record<string, string>) => () => void navigate({ to: '/nodes', search: search })
  const { agents, jobs } = summary
  return (
    <div className="flex flex-wrap gap-x-6 gap-y-3">
      <Row title="Nodes">
        <Stat label="All" value={amount.format(summary.total)} onSelect={nodes({})} />
        {groups.map((g) => {
          const n = countOf(summary, g.states)
          return <Stat key={g.key} label={g.title} value={amount.format(n)} tone={n > 0 && g.tone !== 'idle' ? g.tone : undefined} onSelect={nodes({ status: g.states.join(',') })} />
        })}
      </Row>
      <Row title="Agents">
        {agentCards.map((c) => {
          const n = agents[c.agent]
          return <Stat key={c.agent} label={c.label} value={amount.format(n)} tone={n > 0 ? c.tone : undefined} hint={c.hint} onSelect={nodes({ agent: c.agent })} />
        })}
      </Row>
      <Row title="Capacity">
        <Stat label="GPUs" value={amount.format(summary.gpus_total)} />
        {capacityCards.map((c) => (
          <Stat key={c.counted} label={c.label} value={amount.format(summary[c.counted])} hint={c.hint} onSelect={nodes({ [c.counted]: 'true' })} />
        ))}
      </Row>
      <Row title="Jobs in progress">
        {jobFamilies.map((f) => (
          <Stat key={f} label={titleAt(`/${f}s`)} value={amount.format(jobs[`${f}s_running`])} onSelect={() => void navigate({ to: `/${f}s` })} />
        ))}
      </Row>
    </div>
  )
}

function Row({ title, children }: { title: string; children: ReactNode }) {
  return (
    <section aria-label={title}>
      <h2 className="mb-1 text-xs font-medium text-muted">{title}</h2>
      <div className="flex flex-wrap gap-2">{children}</div>
    </section>
  )
}
