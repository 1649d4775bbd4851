import type { UseQueryResult } from '@tanstack/react-query'
import { Link, useNavigate } from '@tanstack/react-router'
import { useMemo, type ReactNode } from 'react'
import { State, TextLink } from '../../ui/basics'
import { Table, type Column } from '../../ui/table'
import { between, span, useNow, When } from '../../ui/time'
import { useBoardKeys, useBoardRow } from './board'
import type { BoardStore } from './boardstore'
import { actionTitle, isOver, isParked, pathOf, standingOf, type Job, type Kind, type Stage } from './job'
import { Outdated } from './Outdated'
import { isLate, remaining, stoodStillAt } from './progress'
import { StageBar } from './StageBar'

type Props<T extends Job> = { kind: Kind; store: BoardStore<T>; stages: Stage[]; empty: ReactNode; height?: string }

/**
 * JobBoard has one row per node. The table is given keys only: each cell follows its own
 * row, so that an event draws the cells of one row and nothing else.
 */
export function JobBoard<T extends Job>({ kind, store, stages, empty, height }: Props<T>) {
  const keys = useBoardKeys(store)
  const navigate = useNavigate()
  const columns = useMemo(() => columnsOf(kind, store, stages), [kind, store, stages])
  return <Table label={`${kind.unit}s of the batch`} columns={columns} rows={keys} rowKey={(k) => k} onOpen={(k) => void navigate({ to: pathOf(kind, k) })} height={height} empty={empty} />
}

/** BoardReading says when the rows of a board are not those of now: they could not be read, or are those of the last visit. */
export function BoardReading({ of }: { of: UseQueryResult }) {
  if (of.error || of.isPending || of.isFetchedAfterMount) return <Outdated of={of} />
  return (
    <p role="status" className="text-xs text-muted">
      Reading again: what you see is as of <When at={new Date(of.dataUpdatedAt).toISOString()} />.
    </p>
  )
}

function columnsOf<T extends Job>(kind: Kind, store: BoardStore<T>, stages: Stage[]): Column<string>[] {
  const cell = (body: (row: T, key: string) => ReactNode) => {
    function Cell({ id }: { id: string }) {
      const row = useBoardRow(store, id)
      return row ? body(row, id) : null
    }
    return (key: string) => <Cell id={key} />
  }
  const titles = new Map(stages.map((s) => [s.name, s]))
  return [
    { key: 'hostname', title: 'Machine', width: 'minmax(7rem, 0.8fr)', cell: cell((r, k) => <TextLink to={pathOf(kind, k)}>{r.hostname}</TextLink>) },
    { key: 'bar', title: 'Stages', width: 'minmax(8.5rem, 1fr)', cell: cell((r) => <StageBar status={r.status} gaps={r.outcome === 'with_gaps'} stage={r.current_stage} stages={stages} />) },
    { key: 'stage', title: 'Stage', width: 'minmax(13rem, 1.6fr)', cell: cell((r) => <StageName row={r} title={titles.get(r.current_stage)?.title} />) },
    { key: 'status', title: 'Status', width: '9.5rem', cell: cell((r) => <State of="job" is={standingOf(r)} />) },
    { key: 'elapsed', title: 'Elapsed', width: '6.5rem', align: 'right', cell: cell((r) => <Spent row={r} />) },
    { key: 'expected', title: 'Time left', width: '7.5rem', align: 'right', cell: cell((r) => <Expected row={r} stages={stages} />) },
    { key: 'failure', title: 'What happened', width: 'minmax(16rem, 2.4fr)', cell: cell((r, k) => <Trouble row={r} to={pathOf(kind, k)} />) },
  ]
}

export function StageName({ row, title }: { row: Pick<Job, 'status' | 'current_stage' | 'current_attempt' | 'stage_number'>; title?: string }) {
  if (row.status === 'pending') return <span className="text-muted">waiting for a free slot</span>
  if (row.status === 'compensating') return <>rolling back</>
  if (isOver(row.status) && row.status !== 'cancelled') return <span className="text-muted">–</span>
  return (
    <span title={title ?? row.current_stage}>
      {row.stage_number > 0 && <span className="text-muted tabular-nums">{row.stage_number} </span>}
      {title ?? row.current_stage.replaceAll('_', ' ')}
      {row.current_attempt > 1 && <span className="text-muted"> · attempt {row.current_attempt}</span>}
    </span>
  )
}

export function Spent({ row }: { row: Pick<Job, 'status' | 'started_at' | 'completed_at' | 'parked_at' | 'updated_at'> }) {
  const now = useNow()
  return row.started_at ? <>{between(row.started_at, stoodStillAt(row), now)}</> : <span className="text-muted">–</span>
}

export function Expected({ row, stages }: { row: Job; stages: Stage[] }) {
  const now = useNow()
  if (isOver(row.status)) return <span className="text-muted">–</span>
  if (isLate(row, stages, now)) return <span className="text-warn" title="This stage has taken more than twice as long as it typically does.">overdue</span>
  const left = remaining(row, stages, now)
  if (left === undefined) return <span title="Unknown: a later stage has never been completed before, or this job is waiting for you.">–</span>
  return <>{left < 1 ? 'any moment' : `${span(left)} more`}</>
}

function Trouble({ row, to }: { row: Job; to: string }) {
  if (!isParked(row.status)) return row.pending_action && !isOver(row.status) ? <span className="text-muted">requested: {actionTitle(row.pending_action)}</span> : null
  return (
    <span className="flex min-w-0 items-center gap-2">
      {row.recommended_action && (
        <Link to={to} hash="actions" className="shrink-0 text-accent underline-offset-2 hover:underline">
          {actionTitle(row.recommended_action)}
        </Link>
      )}
      <span className="truncate text-bad" title={row.failure?.error_message}>
        {row.failure?.error_message || row.failure?.error_code}
      </span>
    </span>
  )
}
