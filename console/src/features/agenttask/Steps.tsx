import { Badge, Card } from '../../ui/basics'
import { Elapsed, exact } from '../../ui/time'
import type { Tone } from '../../ui/tone'
import { stepRows, type Step, type StepRow } from './task'

const tones: Record<Step['status'], Tone> = { started: 'info', succeeded: 'ok', failed: 'bad', skipped: 'idle' }

/** Steps is what the node reported on the way, attempt by attempt. */
export function Steps({ steps, lasts }: { steps: Step[]; lasts: boolean }) {
  const rows = stepRows(steps)
  const attempts = [...new Set(rows.map((r) => r.attempt))]
  return (
    <Card title="Steps">
      {rows.length === 0 && <p className="text-sm text-muted">{lasts ? 'The node has reported none yet.' : 'The node reported none.'}</p>}
      {attempts.map((attempt) => (
        <section key={attempt} className="mb-3 last:mb-0">
          {attempts.length > 1 && <h3 className="mb-1 text-xs font-medium text-muted">Attempt {attempt}</h3>}
          <ol className="flex flex-col divide-y divide-line">
            {rows
              .filter((r) => r.attempt === attempt)
              .map((r) => (
                <Row key={r.key} row={r} lasts={lasts && attempt === attempts.at(-1)} />
              ))}
          </ol>
        </section>
      ))}
    </Card>
  )
}

function Row({ row, lasts }: { row: StepRow; lasts: boolean }) {
  const unfinished = row.status === 'started' && !lasts
  return (
    <li className="flex flex-wrap items-center gap-x-3 gap-y-1 py-1.5 text-sm">
      <Badge tone={unfinished ? 'idle' : tones[row.status]}>{row.status === 'started' ? (lasts ? 'running' : 'not finished') : row.status}</Badge>
      <span className="font-medium">{row.name}</span>
      {row.status === 'started' && row.percent !== undefined && (
        <span className="flex items-center gap-2">
          <span role="progressbar" aria-label={`Progress of ${row.name}`} aria-valuenow={row.percent} aria-valuemin={0} aria-valuemax={100} className="block h-2 w-32 overflow-hidden rounded bg-raised">
            <span className={`block h-full ${unfinished ? 'bg-idle' : 'bg-accent'}`} style={{ width: `${row.percent}%` }} />
          </span>
          <span className="text-xs tabular-nums">{row.percent} %</span>
        </span>
      )}
      <span className="min-w-0 flex-1 break-words text-muted">{row.message}</span>
      <span className="text-xs text-muted" title={`Began ${exact(row.began)}, by the clock of the node`}>
        {(row.ended ?? lasts) ? <Elapsed from={row.began} to={row.ended} /> : ''}
      </span>
    </li>
  )
}
