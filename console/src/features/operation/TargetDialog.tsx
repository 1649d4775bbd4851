import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { readAll } from '../../api/readall'
import { useMay, useMe } from '../../app/session'
import { Badge, Button, Code, Loading, Note, State, TextLink } from '../../ui/basics'
import { Dialog } from '../../ui/dialog'
import { ProblemNote } from '../../ui/problem'
import { span, When } from '../../ui/time'
import { Ask } from './Actions'
import { stepLook, type Column } from './board'
import { allowed, mayResume, type Run, type Step, type Target } from './operation'
import { listSteps, runsKey, type Where } from './queries'

type Props = { where: Where; run: Run; target: Target; columns: Column[]; onClose: () => void }

/** TargetDialog is what became of the steps on one node, attempt by attempt. */
export function TargetDialog({ where, run, target, columns, onClose }: Props) {
  const me = useMe()
  const may = useMay()
  const [retrying, setRetrying] = useState(false)
  const steps = useQuery({
    queryKey: [...runsKey, 'one', run.operation_id, where.projectId, 'steps', target.target_id],
    queryFn: async () => (await readAll((cursor) => listSteps(where, run.operation_id, { target: target.target_id }, cursor))).rows,
    refetchInterval: target.status === 'running' ? 3_000 : false,
  })
  const from = columns[target.step_index]?.title ?? 'its step'
  const resumes = mayResume(target) && allowed(me, run).includes('retry')
  if (retrying) return <Ask where={where} run={run} verb="retry" target={{ id: target.target_id, hostname: target.hostname, from }} onClose={onClose} />
  const attempts = [...new Set((steps.data ?? []).map((s) => s.attempt_number))].sort((a, b) => b - a)
  return (
    <Dialog title={<span className="flex flex-wrap items-center gap-2">{target.hostname} <State of="operationTarget" is={target.status} /></span>} onClose={onClose} wide>
      <div className="flex flex-col gap-4">
        {target.error && (
          <Note tone="bad" title={target.error.message}>
            {target.error.remedy && <p>What to do: {target.error.remedy}.</p>}
            <p className="text-xs text-muted">
              {target.error.code}
              {target.error.class && ` · ${target.error.class}`}
            </p>
          </Note>
        )}
        {target.probing && <Note tone="warn" title="The result of the last attempt is unknown">gpuaas checks the node before it repeats anything.</Note>}
        {steps.error && <ProblemNote error={steps.error} onRetry={() => void steps.refetch()} />}
        {steps.isPending && <Loading what="the steps" />}
        {steps.data?.length === 0 && <p className="text-sm text-muted">{target.status === 'running' ? 'The node is working on it and reports its steps when it is done.' : 'The node has not begun any step.'}</p>}
        {attempts.map((n) => (
          <section key={n}>
            <h3 className="mb-1 text-sm font-semibold">Attempt {n}</h3>
            <ol className="flex flex-col divide-y divide-line">
              {(steps.data ?? []).filter((s) => s.attempt_number === n).map((s) => (
                <StepRow key={s.step_index} step={s} title={columns[s.step_index]?.title ?? s.step_id} />
              ))}
            </ol>
          </section>
        ))}
        <div className="flex flex-wrap items-center justify-end gap-3">
          {may('node:read') && <TextLink to={`/nodes/${target.node_id}`}>The node</TextLink>}
          {target.allocation_id && <TextLink to={`/allocations/${target.allocation_id}`}>The allocation</TextLink>}
          <TextLink to="." search={{ ...(where.projectId || run.project_id ? { project: run.project_id } : {}), tab: 'log', target: target.target_id }}>
            Its log
          </TextLink>
          {resumes && (
            <Button look="primary" onClick={() => setRetrying(true)}>
              Retry from here …
            </Button>
          )}
        </div>
      </div>
    </Dialog>
  )
}

function StepRow({ step: s, title }: { step: Step; title: string }) {
  const look = stepLook(s)
  return (
    <li className="flex flex-col gap-1 py-2 text-sm">
      <p className="flex flex-wrap items-center gap-2">
        <span className="font-medium">{title}</span>
        <Badge tone={look.tone}>{look.words}</Badge>
        <span className="text-xs text-muted">
          {s.step_kind}
          {s.started_at && (
            <>
              {' '}· <When at={s.started_at} />, {s.duration_ms < 1000 ? `${s.duration_ms} ms` : span(s.duration_ms / 1000)}
            </>
          )}
          {s.tries > 1 && ` · ${s.tries} tries`}
          {s.resolved_profile && ` · by ${s.resolved_profile}`}
          {s.log_lines > 0 && ` · ${s.log_lines} lines of log`}
          {s.log_bytes_dropped > 0 && ` (${s.log_bytes_dropped} bytes exceeded the limit and were dropped)`}
        </span>
      </p>
      {s.summary && <p className="break-words">{s.summary}</p>}
      {s.error && (
        <p className="break-words text-bad">
          {s.error.message} {s.error.remedy && <span className="text-ink">What to do: {s.error.remedy}.</span>}
        </p>
      )}
      {hasContent(s.output) && (
        <details>
          <summary className="cursor-pointer text-xs text-muted">What it found</summary>
          <Code block>{JSON.stringify(s.output, null, 2)}</Code>
        </details>
      )}
    </li>
  )
}

const hasContent = (v: unknown) => typeof v === 'object' && v !== null && Object.keys(v).length > 0
