import { useSyncExternalStore } from 'react'
import { Stat } from '../../ui/basics'
import { exact, span, useNow } from '../../ui/time'
import { useBoardCounts } from './board'
import type { BoardStore } from './boardstore'
import type { Job, Stage } from './job'
import { paceOf, type Counts } from './progress'

type Choose = { status: string; onStatus: (s: string) => void }

/** BatchHeader says how a batch is getting on; its numbers choose the rows below. */
export function BatchHeader<T extends Job>({ store, stages, total, status, onStatus }: { store: BoardStore<T>; stages: Stage[]; total: number } & Choose) {
  const counts = useBoardCounts(store)
  const done = counts.completed + counts.reconciled
  const parked = counts.failed_retryable + counts.failed_manual_intervention
  const stat = (label: string, value: number, is: string, tone?: 'ok' | 'warn' | 'bad' | 'info' | 'idle') => (
    <Stat label={label} value={value} tone={value > 0 ? tone : undefined} selected={status === is} onSelect={() => onStatus(status === is ? '' : is)} hint={`Show only these`} />
  )
  return (
    <div className="flex flex-col gap-3">
      <Progress counts={counts} total={total} />
      <div className="flex flex-wrap gap-2">
        {stat('completed', done, 'completed', counts.with_gaps > 0 ? 'warn' : 'ok')}
        {counts.with_gaps > 0 && <Stat label="of these with gaps" value={counts.with_gaps} tone="warn" hint="These ended with less done than requested." />}
        {stat('running', counts.running, 'running', 'info')}
        {counts.compensating > 0 && stat('rolling back', counts.compensating, 'compensating', 'info')}
        {stat('pending', counts.pending, 'pending', 'idle')}
        {stat('parked', parked, 'failed', 'bad')}
        {counts.cancelled > 0 && stat('cancelled', counts.cancelled, 'cancelled', 'idle')}
        <Pace store={store} stages={stages} />
      </div>
    </div>
  )
}

function Progress({ counts, total }: { counts: Counts; total: number }) {
  const all = Math.max(1, total)
  const done = counts.completed + counts.reconciled
  const parked = counts.failed_retryable + counts.failed_manual_intervention
  const parts: [string, number][] = [
    ['bg-ok', done - counts.with_gaps],
    ['bg-warn', counts.with_gaps],
    ['bg-info/40', counts.running + counts.compensating],
    ['bg-bad', parked],
    ['bg-idle', counts.cancelled],
  ]
  return (
    <div className="flex items-center gap-3">
      <div role="progressbar" aria-label="Completed" aria-valuemin={0} aria-valuemax={total} aria-valuenow={done} className="flex h-2.5 flex-1 overflow-hidden rounded-full bg-idle-soft">
        {parts.map(([look, n]) => n > 0 && <span key={look} className={look} style={{ width: `${(100 * n) / all}%` }} />)}
      </div>
      <span className="text-sm tabular-nums">
        {done} of {total}
        {counts.cancelled > 0 && `, ${counts.cancelled} cancelled`}
      </span>
    </div>
  )
}

function Pace<T extends Job>({ store, stages }: { store: BoardStore<T>; stages: Stage[] }) {
  const now = useNow()
  useSyncExternalStore(store.subscribe, store.counts)
  const { perHour, secondsLeft } = paceOf(store.all(), stages, now)
  const end = secondsLeft === undefined || secondsLeft === 0 ? undefined : new Date(now + secondsLeft * 1000).toISOString()
  return (
    <>
      <Stat label="per hour" value={perHour === undefined ? '–' : perHour < 10 ? perHour.toFixed(1) : Math.round(perHour)} hint="Completed during the last hour" />
      <Stat label="expected time left" value={end && secondsLeft !== undefined ? span(secondsLeft) : '–'} hint={end ? `Until about ${exact(end)}, if as many keep running in parallel as now; parked jobs are not counted.` : 'Not known yet, or nothing is left to do.'} />
    </>
  )
}
