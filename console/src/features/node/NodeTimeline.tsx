import { useSearchState } from '../../app/location'
import { Badge, Card, Empty, Loading, State } from '../../ui/basics'
import { ProblemNote } from '../../ui/problem'
import { Table, type Column } from '../../ui/table'
import { exact, span, useNow, When } from '../../ui/time'
import { toneFill, toneOf, words } from '../../ui/tone'
import { useHistory } from './queries'
import { segments, spent, stretches, within, type Change } from './timeline'

const columns: Column<Change>[] = [
  { key: 'when', title: 'When', width: 'minmax(7rem, 0.7fr)', cell: (c) => <When at={c.occurred_at} /> },
  { key: 'what', title: 'What', width: 'minmax(11rem, 1fr)', cell: (c) => what(c) },
  {
    key: 'state',
    title: 'State',
    width: 'minmax(13rem, 1fr)',
    cell: (c) =>
      c.to_status ? (
        <span className="inline-flex items-center gap-1">
          {c.from_status && (
            <>
              <State of="node" is={c.from_status} /> <span aria-label="to">→</span>
            </>
          )}
          <State of="node" is={c.to_status} />
        </span>
      ) : (
        <span className="text-muted">–</span>
      ),
  },
  { key: 'source', title: 'Source', width: 'minmax(6rem, 0.6fr)', cell: (c) => <Badge>{c.source}</Badge> },
  { key: 'cause', title: 'Cause', width: 'minmax(16rem, 3fr)', cell: (c) => <span title={c.cause}>{c.cause}</span> },
  { key: 'actor', title: 'By', width: 'minmax(8rem, 1fr)', cell: (c) => <span title={`${c.actor_kind} ${c.actor_id}`}>{c.actor_id || c.actor_kind}</span> },
]

function what(c: Change): string {
  const kind = words(c.kind)
  return c.event && !c.to_status ? `${kind}: ${words(c.event)}` : c.event ? words(c.event) : kind
}

const periods = [
  { key: '', title: 'All', seconds: Infinity },
  { key: 'month', title: 'Month', seconds: 30 * 86_400 },
  { key: 'week', title: 'Week', seconds: 7 * 86_400 },
  { key: 'day', title: 'Day', seconds: 86_400 },
]

/** NodeTimeline is what happened to a node: its states as a bar over time, and every change with its source and cause. */
export function NodeTimeline({ nodeId, status, at, onTravel }: { nodeId: string; status: string; at?: string; onTravel: (to: string) => void }) {
  const [address, change] = useSearchState()
  const history = useHistory(nodeId, at)
  const now = useNow()
  const end = at ? Date.parse(at) : now
  const all = stretches(history.rows, end, status)
  const seconds = periods.find((p) => p.key === (address.range ?? ''))?.seconds ?? Infinity
  const shown = within(all, end - seconds * 1000)
  if (history.loading) return <Loading what="the history" />
  return (
    <div className="flex flex-col gap-4">
      {history.error && <ProblemNote error={history.error} onRetry={history.retry} />}
      <Card
        title="States over time"
        actions={
          <div role="group" aria-label="Period" className="flex flex-wrap gap-1">
            {periods.map((p) => (
              <button key={p.key} type="button" aria-pressed={(address.range ?? '') === p.key} onClick={() => change({ range: p.key })} className={`rounded-md border px-2 py-0.5 text-xs hover:bg-raised ${(address.range ?? '') === p.key ? 'border-accent text-accent' : 'border-line'}`}>
                {p.title}
              </button>
            ))}
          </div>
        }
      >
        <Bar of={shown} partial={history.hasMore} />
      </Card>
      <Table
        label="History"
        columns={columns}
        rows={history.rows}
        rowKey={(c) => String(c.seq)}
        more={history.more}
        onOpen={(c) => onTravel(c.occurred_at)}
        empty={<Empty title="Nothing is recorded for this time">The node did not exist yet.</Empty>}
      />
      <p className="text-xs text-muted">Click a change, or press Enter on it, to see the node as it was right after.</p>
    </div>
  )
}

function Bar({ of, partial }: { of: ReturnType<typeof stretches>; partial: boolean }) {
  const first = of[0]
  const last = of.at(-1)
  if (!first || !last) return <p className="text-sm text-muted">The state did not change in this period.</p>
  return (
    <div className="flex flex-col gap-3">
      <div role="img" aria-label={`States: ${of.map((s) => `${words(s.status)} for ${span((s.to - s.from) / 1000)}`).join(', ')}`} className="relative h-7 overflow-hidden rounded bg-raised">
        {segments(of).map((s) => (
          <div
            key={`${s.from} ${s.status}`}
            title={`${words(s.status)} for ${span((s.to - s.from) / 1000)}, from ${exact(new Date(s.from).toISOString())}${s.cause ? `: ${s.cause}` : ''}`}
            className={`absolute inset-y-0 border-l border-surface ${toneFill[toneOf('node', s.status)]}`}
            style={{ left: `${s.left}%`, width: `${s.width}%` }}
          />
        ))}
      </div>
      <div className="flex justify-between text-xs text-muted">
        <span>
          {partial && 'from the oldest change read: '}
          {exact(new Date(first.from).toISOString())}
        </span>
        <span>{exact(new Date(last.to).toISOString())}</span>
      </div>
      <ul className="flex flex-wrap gap-x-4 gap-y-1 text-sm">
        {spent(of).map((s) => (
          <li key={s.status} className="inline-flex items-center gap-2">
            <State of="node" is={s.status} /> <span className="tabular-nums">{span(s.seconds)}</span>
          </li>
        ))}
      </ul>
    </div>
  )
}
