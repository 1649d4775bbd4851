import { enums } from '../../api/gen/enums'
import { useState } from 'react'
import { api, got } from '../../api/client'
import { usePages } from '../../api/pages'
import { Badge, Empty, Loading } from '../../ui/basics'
import { Dialog } from '../../ui/dialog'
import { ProblemNote } from '../../ui/problem'
import { Table, type Column } from '../../ui/table'
import { When } from '../../ui/time'
import { words } from '../../ui/tone'
import { outcomeOf, type Run } from './findings'
import { useRun } from './reading'
import { RunReport } from './RunReport'

function Outcome({ run }: { run: Run }) {
  const { tone, text } = outcomeOf(run)
  return <Badge tone={tone}>{text}</Badge>
}

const columns: Column<Run>[] = [
  { key: 'requested', title: 'When', width: '7rem', cell: (r) => <When at={r.requested_at} /> },
  { key: 'outcome', title: 'Outcome', width: '11rem', cell: (r) => <Outcome run={r} /> },
  { key: 'site', title: 'Site', width: '7rem', cell: (r) => r.site_name },
  { key: 'trigger', title: 'Why', width: '12rem', cell: (r) => words(r.resolution ?? r.trigger) + (r.hostname ? ` ${r.hostname}` : '') + (r.dry_run ? ', dry run' : '') + (r.full ? ', all' : '') },
  { key: 'machines', title: 'Machines', width: '6rem', align: 'right', cell: (r) => r.report.machines_looked_at },
  { key: 'findings', title: 'Opened / closed', width: '8rem', align: 'right', cell: (r) => `${r.report.findings_opened} / ${r.report.findings_closed}` },
  { key: 'actions', title: 'Actions', width: '7rem', align: 'right', cell: (r) => (r.report.intended_total ? `${r.report.actions_taken} of ${r.report.intended_total}` : '0') },
  { key: 'note', title: 'Problem or reason', width: 'minmax(10rem, 1fr)', cell: (r) => r.error?.message ?? r.reason },
]

const triggers = enums['list-reconciliation-runs.trigger']

/** Runs lists the looks at sites, the newest first, each with its report. */
export function Runs({ site, trigger }: { site?: string; trigger?: string }) {
  const [opened, setOpened] = useState<string>()
  const pages = usePages(
    ['drift', 'runs', site, trigger],
    (cursor) => got(api.GET('/api/v1/admin/reconciliation/runs', { params: { query: { site_id: site, trigger: triggers.find((t) => t === trigger), cursor, page_size: 50 } } })),
    { refetchInterval: 10_000 },
  )
  if (pages.error && pages.rows.length === 0) return <ProblemNote error={pages.error} onRetry={pages.retry} />
  if (pages.loading) return <Loading what="runs" />
  return (
    <>
      {pages.error && <ProblemNote error={pages.error} onRetry={pages.retry} />}
      <Table
        label="Runs"
        columns={columns}
        rows={pages.rows}
        rowKey={(r) => r.run_id}
        onOpen={(r) => setOpened(r.run_id)}
        more={pages.more}
        stale={pages.stale}
        empty={<Empty title="No run yet">Sites are checked on a schedule. Use “Check now” to check one right away.</Empty>}
      />
      {opened && <RunDialog runId={opened} onClose={() => setOpened(undefined)} />}
    </>
  )
}

function RunDialog({ runId, onClose }: { runId: string; onClose: () => void }) {
  const run = useRun(runId)
  return (
    <Dialog title="Run" wide onClose={onClose}>
      {run.error && <ProblemNote error={run.error} onRetry={() => void run.refetch()} />}
      {run.isPending && <Loading what="the run" />}
      {run.data && <RunReport run={run.data} />}
    </Dialog>
  )
}
