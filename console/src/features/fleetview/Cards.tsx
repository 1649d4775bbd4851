import { useNavigate } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { Stat } from '../../ui/basics'
import type { Tone } from '../../ui/tone'
import { countOf, groups, type Summary } from '../node/filters'

const tones: Record<string, Tone> = { active: 'ok', offline: 'bad', quarantined: 'warn', in_progress: 'info' }

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
          return <Stat key={g.key} label={g.title} value={amount.format(n)} tone={n > 0 ? tones[g.key] : undefined} onSelect={nodes({ status: g.states.join(',') })} />
        })}
      </Row>
      <Row title="Agents">
        <Stat label="Agent current" value={amount.format(agents.current)} tone="ok" onSelect={nodes({ drift_state: 'in_sync' })} />
        <Stat label="Agent drift" value={amount.format(agents.drift)} tone={agents.drift > 0 ? 'warn' : undefined} hint="Another version, configuration or certificate is due." />
        <Stat label="Unknown build" value={amount.format(agents.unknown_build)} tone={agents.unknown_build > 0 ? 'warn' : undefined} hint="Nobody can tell what the agent was built of, or there is none yet. Counts as drift." />
      </Row>
      <Row title="Capacity">
        <Stat label="GPUs" value={amount.format(summary.gpus_total)} />
        <Stat label="Schedulable" value={amount.format(summary.schedulable)} onSelect={nodes({ schedulable: 'true' })} />
        <Stat label="Held" value={amount.format(summary.held)} hint="Kept out of scheduling by an operator or an operation." />
        <Stat label="Tainted" value={amount.format(summary.tainted)} hint="Not proven clean since a tenant had access, or found unclean." />
      </Row>
      <Row title="Jobs under way">
        <Stat label="Onboarding" value={amount.format(jobs.onboardings_running)} onSelect={() => void navigate({ to: '/onboardings' })} />
        <Stat label="Turnover" value={amount.format(jobs.decommissions_running)} onSelect={() => void navigate({ to: '/decommissions' })} />
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
