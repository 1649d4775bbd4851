import { useNavigate } from '@tanstack/react-router'
import { useCallback, type ReactNode } from 'react'
import type { usePages } from '../../api/pages'
import { Badge, Empty, State, TextLink } from '../../ui/basics'
import { chips, Filters } from '../../ui/filters'
import { FilterText } from '../../ui/filtertext'
import { SelectField } from '../../ui/form'
import { Table, type Column } from '../../ui/table'
import { When } from '../../ui/time'
import { BatchProgress } from './BatchProgress'
import { batchTone } from './batchtone'
import { actionTitle, batchPathOf, idOf, pathOf, standingOf, statusChoices, type Batch, type Job, type Kind, type Stage } from './job'
import { Spent, StageName } from './JobBoard'
import { useSites } from './lookups'
import { Outdated, outdatedOf } from './Outdated'
import { Section } from './Section'
import { StageBar } from './StageBar'

type Search = Record<string, string | undefined>

type Choice = { key: string; label: string; options: { value: string; label: string }[] }

/** JobFilters chooses among jobs by name, status and site; its kind may have more choices. */
export function JobFilters({ kind, search, setSearch, choices = [] }: { kind: Kind; search: Search; setSearch: (patch: Search) => void; choices?: Choice[] }) {
  const { sites } = useSites()
  const find = useCallback((hostname: string) => setSearch({ hostname }), [setSearch])
  const all: Choice[] = [...choices, { key: 'status', label: 'Status', options: statusChoices }, { key: 'site', label: 'Site', options: [{ value: '', label: 'Any site' }, ...sites.map((s) => ({ value: s.site_id, label: s.name }))] }]
  return (
    <Filters
      active={chips(search, setSearch, [{ key: 'hostname', label: kind.unit }, ...all])}
      onClearAll={() => setSearch(Object.fromEntries(['hostname', ...all.map((c) => c.key)].map((k) => [k, undefined])))}
      more={all.map((c) => (
        <SelectField key={c.key} label={c.label} value={search[c.key] ?? ''} onChange={(v) => setSearch({ [c.key]: v })} options={c.options} />
      ))}
    >
      <FilterText label={kind.unit} placeholder="start of the name" value={search.hostname ?? ''} onChange={find} />
    </Filters>
  )
}

type Pages<T> = ReturnType<typeof usePages<T>>

type Props<T extends Job, B extends Batch> = {
  kind: Kind
  all: Pages<T>
  parked: Pages<T>
  batches: Pages<B>
  /** Whether only some are asked for. */
  filtered: boolean
  columns: Column<T>[]
  parkedColumns: Column<T>[]
  batchColumns: Column<B>[]
  /** What to choose otherwise when nothing fits. */
  otherwise: string
  /** The filters. */
  children: ReactNode
}

/** JobLists is all jobs of a kind: what waits for somebody first, then the batches. */
export function JobLists<T extends Job, B extends Batch>({ kind, all, parked, batches, filtered, columns, parkedColumns, batchColumns, otherwise, children }: Props<T, B>) {
  const navigate = useNavigate()
  const jobs = { rowKey: idOf, onOpen: (job: T) => void navigate({ to: pathOf(kind, idOf(job)) }) }
  const unread = all.error !== null && all.rows.length === 0
  return (
    <>
      <Outdated of={outdatedOf(all, parked, batches)} />
      {children}
      {parked.rows.length > 0 && (
        <Section title="Parked: waiting for you" count={parked.rows.length} more={parked.hasMore}>
          <Table {...jobs} label={`Parked ${kind.job.toLowerCase()}s`} columns={parkedColumns} rows={parked.rows} more={parked.more} stale={parked.stale} />
        </Section>
      )}
      {!filtered && batches.rows.length > 0 && (
        <Section title="Batches" count={batches.rows.length} more={batches.hasMore}>
          <Table label="Batches" columns={batchColumns} rows={batches.rows} rowKey={(b) => b.batch_id} onOpen={(b) => void navigate({ to: batchPathOf(kind, b.batch_id) })} more={batches.more} height={batches.rows.length > 6 ? '16rem' : undefined} />
        </Section>
      )}
      {!unread && (
        <Section title={filtered ? 'Matching' : 'All, newest first'} count={all.rows.length} more={all.hasMore}>
          <Table {...jobs} label={`${kind.job}s`} columns={columns} rows={all.rows} more={all.more} stale={all.stale} empty={<Empty title="Nothing matches">{otherwise}</Empty>} />
        </Section>
      )}
    </>
  )
}

/** jobColumns are those that lists of jobs are made of. */
export function jobColumns<T extends Job>(kind: Kind, stagesOf: (job: T) => Stage[]) {
  return {
    name: { key: 'hostname', title: kind.unit, width: 'minmax(8rem, 1fr)', cell: (j) => <TextLink to={pathOf(kind, idOf(j))}>{j.hostname}</TextLink> },
    status: { key: 'status', title: 'Status', width: '9.5rem', cell: (j) => <State of="job" is={standingOf(j)} /> },
    bar: { key: 'bar', title: 'Stages', width: 'minmax(8rem, 1fr)', cell: (j) => <StageBar status={j.status} gaps={j.outcome === 'with_gaps'} stage={j.current_stage} stages={stagesOf(j)} /> },
    stage: { key: 'stage', title: 'Stage', width: 'minmax(10rem, 1.4fr)', cell: (j) => <StageName row={j} title={stagesOf(j).find((s) => s.name === j.current_stage)?.title} /> },
    took: { key: 'took', title: 'Took', width: '7rem', align: 'right', cell: (j) => <Spent row={j} /> },
    asked: { key: 'asked', title: 'Requested', width: '7rem', cell: (j) => <When at={j.requested_at} /> },
    since: { key: 'since', title: 'Parked', width: '7rem', cell: (j) => <When at={j.parked_at} /> },
    why: {
      key: 'why',
      title: 'Why, and what to do',
      width: 'minmax(14rem, 2.5fr)',
      cell: (j) => (
        <span title={j.failure?.error_message}>
          {j.recommended_action && <Badge tone="accent">{actionTitle(j.recommended_action)}</Badge>} <span className="text-bad">{j.failure?.error_message}</span>
        </span>
      ),
    },
  } satisfies Record<string, Column<T>>
}

/** batchColumns are those that lists of batches are made of. */
export function batchColumns(kind: Kind) {
  return {
    asked: { key: 'asked', title: 'Batch', width: 'minmax(12rem, 1fr)', cell: (b) => <TextLink to={batchPathOf(kind, b.batch_id)}>{b.total} {kind.unit.toLowerCase()}{b.total === 1 ? '' : 's'}, <When at={b.requested_at} /></TextLink> },
    state: { key: 'state', title: 'State', width: '7rem', cell: (b) => <Badge tone={batchTone(b.state, b.failed)}>{b.state}</Badge> },
    progress: { key: 'progress', title: 'Progress', width: 'minmax(9rem, 1.5fr)', cell: (b) => <BatchProgress total={b.total} succeeded={b.succeeded} failed={b.failed} /> },
    parked: { key: 'parked', title: 'Parked', width: '5.5rem', align: 'right', cell: (b) => <span className={b.failed > 0 ? 'text-bad' : ''}>{b.failed}</span> },
  } satisfies Record<string, Column<Batch>>
}
