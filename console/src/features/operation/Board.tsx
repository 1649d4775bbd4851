import { useQuery } from '@tanstack/react-query'
import { useMemo, useState } from 'react'
import { usePages } from '../../api/pages'
import { readAll } from '../../api/readall'
import { Badge, Card, Empty, Loading, State } from '../../ui/basics'
import { ProblemNote } from '../../ui/problem'
import { Table, type Column } from '../../ui/table'
import { Elapsed } from '../../ui/time'
import { byTarget, causesOf, cellsOf, columnsOf, type Cell } from './board'
import { hasEnded, type Run, type Step, type Target } from './operation'
import { listSteps, listTargets, runsKey, type StepWish, type Where } from './queries'
import { TargetDialog } from './TargetDialog'

/** Of how many nodes all steps are read. With more, each node says where it is, and only the steps that failed are read. */
const readAllUpTo = 50

const none: Step[] = []
type Row = { target: Target; cells: Cell[] }

/** Board is nodes by steps, as they go. */
export function Board({ where, run, defined }: { where: Where; run: Run; defined?: { id: string; title?: string }[] }) {
  const [opened, setOpened] = useState<string>()
  const refetchInterval = hasEnded(run) ? undefined : 3_000
  const key = [...runsKey, 'one', run.operation_id, where.projectId]
  const pages = usePages([...key, 'targets'], (cursor) => listTargets(where, run.operation_id, cursor), { refetchInterval })
  const wish: StepWish = run.targets.total <= readAllUpTo ? {} : { status: 'failed' }
  const steps = useQuery({
    queryKey: [...key, 'steps', wish.status],
    queryFn: async () => (await readAll((cursor) => listSteps(where, run.operation_id, wish, cursor))).rows,
    refetchInterval: refetchInterval ? (wish.status ? 10_000 : refetchInterval) : false,
  })
  const told = steps.data ?? none
  const columns = useMemo(() => columnsOf(run, defined, told), [run, defined, told])
  const outcomes = useMemo(() => byTarget(told), [told])
  const rows: Row[] = pages.rows.map((target) => ({ target, cells: cellsOf(target, columns, outcomes.get(target.target_id)) }))
  const shown = pages.rows.find((t) => t.target_id === opened)
  const causes = causesOf(pages.rows)
  if (pages.loading) return <Loading what="the nodes of the run" />
  const table: Column<Row>[] = [
    { key: 'node', title: 'Node', width: 'minmax(9rem,1fr)', cell: ({ target }) => <button type="button" aria-label={`Details of ${target.hostname}`} onClick={() => setOpened(target.target_id)} className="truncate font-medium text-accent hover:underline">{target.hostname}</button> },
    { key: 'status', title: 'Status', width: '7rem', cell: ({ target }) => <State of="operationTarget" is={target.status} /> },
    ...columns.map((c, i): Column<Row> => ({ key: `step ${i}`, title: c.title, width: 'minmax(8rem,1fr)', cell: ({ cells }) => <Badge tone={cells[i]?.tone} title={cells[i]?.step?.summary}>{cells[i]?.words}</Badge> })),
    { key: 'attempt', title: 'Attempt', width: '5rem', align: 'right', cell: ({ target }) => target.attempt || '–' },
    { key: 'time', title: 'Took', width: '6rem', cell: ({ target }) => target.handed_out_at && (target.finished_at ?? (target.status === 'running')) ? <Elapsed from={target.handed_out_at} to={target.finished_at} /> : '–' },
    { key: 'trouble', title: 'What went wrong', width: 'minmax(12rem,2fr)', cell: ({ target }) => <span title={target.error?.message}>{target.error?.message ?? ''}</span> },
  ]
  return (
    <div className="flex flex-col gap-4">
      {pages.error && <ProblemNote error={pages.error} onRetry={pages.retry} />}
      {steps.error && <ProblemNote error={steps.error} onRetry={() => void steps.refetch()} />}
      <Table label="Nodes and steps" columns={table} rows={rows} rowKey={(r) => r.target.target_id} onOpen={(r) => setOpened(r.target.target_id)} more={pages.more} empty={<Empty title="This run has no nodes" />} />
      {causes.length > 0 && (
        <Card title="What went wrong">
          <ul className="flex flex-col divide-y divide-line">
            {causes.map((c) => (
              <li key={c.code + c.message} className="py-2 text-sm">
                <p className="font-medium break-words">{c.message}</p>
                {c.remedy && <p>What to do: {c.remedy}.</p>}
                <p className="text-xs text-muted">
                  {c.hostnames.length > 8 ? `${c.hostnames.slice(0, 8).join(', ')} and ${c.hostnames.length - 8} more` : c.hostnames.join(', ')} · {c.code}
                </p>
              </li>
            ))}
          </ul>
        </Card>
      )}
      {shown && <TargetDialog where={where} run={run} target={shown} columns={columns} onClose={() => setOpened(undefined)} />}
    </div>
  )
}
