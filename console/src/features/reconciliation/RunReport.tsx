import { jobNamed, jobPath } from '../../api/jobs'
import { Badge, Facts, Note, TextLink } from '../../ui/basics'
import { between, When } from '../../ui/time'
import { words } from '../../ui/tone'
import { outcomeOf, type Run } from './findings'

/** RunReport is what a run asked, found and did. */
export function RunReport({ run }: { run: Run }) {
  const outcome = outcomeOf(run)
  const r = run.report
  return (
    <div className="flex flex-col gap-4">
      {run.error && (
        <Note tone={run.outcome === 'refused' ? 'warn' : 'bad'} title={run.error.message}>
          {run.error.remedy && <p>{run.error.remedy}</p>}
          <p className="mt-1 text-xs text-muted">{run.error.code}</p>
        </Note>
      )}
      <div className="grid gap-4 md:grid-cols-2">
        <Facts
          of={[
            ['Outcome', <Badge key="o" tone={outcome.tone}>{outcome.text}</Badge>],
            ['Site', run.site_name],
            ['Why', words(run.trigger) + (run.dry_run ? ', dry run: nothing was done' : '') + (run.full ? ', all machines' : '')],
            ...(run.resolution ? ([['Decision', `${words(run.resolution)}${run.hostname ? ` of ${run.hostname}` : ''}`]] as [string, string][]) : []),
            ['Reason', run.reason],
            ['Requested', <When key="r" at={run.requested_at} />],
            ['Took', run.began_at && run.ended_at ? `${between(run.began_at, run.ended_at, 0)} (${r.control_plane_ms} ms of it here, the rest waiting for MAAS)` : undefined],
          ]}
        />
        <Facts
          of={[
            ['Findings', `${r.findings_opened} opened, ${r.findings_confirmed} confirmed, ${r.findings_closed} closed`],
            ['Actions', r.intended_total === 0 ? 'none due' : `${r.actions_taken} taken of ${r.intended_total} due`],
            ['Machines', `${r.machines_looked_at} checked, ${r.machines_swept} of them by rotation, ${r.machines_missing} without an answer`],
            ['Not nodes', r.unmanaged_machines === 1 ? '1 MAAS machine is not a node' : `${r.unmanaged_machines} MAAS machines are not nodes`],
            ['MAAS requests', `${r.requests} requests, ${r.machine_records} records, ${r.events} events${r.questions_unanswered ? `, ${r.questions_unanswered} requests unanswered` : ''}`],
            ['Database rows written', `${r.rows_written}`],
          ]}
        />
      </div>
      <Intended run={run} />
      <LeftToJobs title="Left to the job that is working on the node" rows={r.left_to_jobs} />
      <LeftToJobs title="Jobs that this run completed" rows={r.jobs_reconciled} />
    </div>
  )
}

function Intended({ run }: { run: Run }) {
  const { intended_actions: actions, intended_total: total } = run.report
  if (actions.length === 0) return null
  return (
    <section>
      <h3 className="mb-1 text-sm font-semibold">{run.dry_run ? 'Would have been done' : 'Due'}</h3>
      <ul className="flex flex-col gap-1 text-sm">
        {actions.map((a) => (
          <li key={a.node_id + a.finding} className="flex flex-wrap items-center gap-2">
            <Badge tone={run.dry_run ? 'idle' : a.done ? 'ok' : 'warn'}>{run.dry_run ? 'would' : a.done ? 'done' : 'withheld'}</Badge>
            <TextLink to={`/drift/${a.node_id}`}>
              {a.hostname}
            </TextLink>
            {words(a.action)} because of {words(a.finding)}
            {a.withheld && !run.dry_run && <span className="text-muted">{a.withheld}</span>}
          </li>
        ))}
      </ul>
      {total > actions.length && <p className="mt-1 text-xs text-muted">and {total - actions.length} more</p>}
    </section>
  )
}

function LeftToJobs({ title, rows }: { title: string; rows: Run['report']['left_to_jobs'] }) {
  if (rows.length === 0) return null
  return (
    <section>
      <h3 className="mb-1 text-sm font-semibold">{title}</h3>
      <ul className="flex flex-col gap-1 text-sm">
        {rows.map((row) => (
          <li key={row.node_id + row.job} className="flex flex-wrap gap-2">
            {row.hostname && (
              <TextLink to={`/drift/${row.node_id}`}>
                {row.hostname}
              </TextLink>
            )}
            <JobLink job={row.job} />
            <span className="text-muted">{row.seen}</span>
          </li>
        ))}
      </ul>
    </section>
  )
}

/** JobLink leads to a job that is named as runs and nodes name it. */
export function JobLink({ job }: { job: string }) {
  const known = jobNamed(job.trim(), ' ')
  return known ? <TextLink to={jobPath(known)}>{known.kind}</TextLink> : <>{job}</>
}
