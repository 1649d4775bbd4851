import { Link } from '@tanstack/react-router'
import { useQuery } from '@tanstack/react-query'
import { api, got } from '../../api/client'
import { Card, Loading } from '../../ui/basics'
import { ProblemNote } from '../../ui/problem'
import { toneFill } from '../../ui/tone'
import { badges, barsOf } from './fleet'

/** Versions is which agents the fleet runs, as a picture whose parts lead to their nodes. */
export function Versions() {
  // Agents that report something are told by events; that a certificate has ended is told by none.
  const agents = useQuery({ queryKey: ['agents'], queryFn: () => got(api.GET('/api/v1/admin/fleet/agents')), refetchInterval: 30_000 })
  if (agents.isPending) return <Loading what="the versions of the fleet" />
  if (!agents.data) return <ProblemNote error={agents.error} onRetry={() => void agents.refetch()} />
  return (
    <Card title={`What ${agents.data.total === 1 ? '1 node runs' : `${agents.data.total.toLocaleString()} nodes run`}`}>
      {agents.error && <ProblemNote error={agents.error} onRetry={() => void agents.refetch()} />}
      {agents.data.total === 0 && <p className="text-sm text-muted">There are no nodes in service yet. Onboard machines, and their agents appear here.</p>}
      <ul aria-label="Versions" className="flex flex-col gap-3">
        {barsOf(agents.data.items).map((bar) => (
          <li key={bar.version} className="grid gap-1 sm:grid-cols-[10rem_minmax(0,1fr)_4rem] sm:items-center">
            <span className="truncate text-sm font-medium" title={bar.label}>{bar.label}</span>
            <div className="flex h-6 gap-px">
              {bar.parts.map((p) => (
                <Link key={`${p.group.channel} ${p.group.badge}`} to="/nodes" search={p.search} aria-label={p.label} title={p.label} style={{ width: `${p.percent}%` }} className={`min-w-1.5 rounded-sm hover:brightness-110 ${toneFill[p.tone]}`} />
              ))}
            </div>
            <span className="text-sm tabular-nums sm:text-right">{bar.nodes.toLocaleString()}</span>
          </li>
        ))}
      </ul>
      <ul aria-label="Colours" className="mt-4 flex flex-wrap gap-x-4 gap-y-1 text-xs text-muted">
        {Object.entries(badges).map(([key, b]) => (
          <li key={key} className="inline-flex items-center gap-1.5">
            <span aria-hidden className={`size-3 rounded-sm ${toneFill[b.tone]}`} />
            {b.label}
          </li>
        ))}
      </ul>
    </Card>
  )
}
