import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useState, type ReactNode } from 'react'
import { api, got } from '../../api/client'
import { jobPath } from '../../api/jobs'
import { useParam } from '../../app/location'
import { useMay } from '../../app/session'
import { Badge, Button, Card, Code, Facts, Loading, Note, Page, State, TextLink } from '../../ui/basics'
import { ReasonDialog } from '../../ui/dialog'
import { Elapsed, When } from '../../ui/time'
import { say } from '../../ui/toast'
import { words } from '../../ui/tone'
import { Outdated } from '../job/Outdated'
import { useNodeNames } from './nodeNames'
import { Steps } from './Steps'
import { askedBy, lasts, titled, waitsFor, type Task } from './task'
import { typesQuery } from './Tasks'

/** TaskPage is one task: how far it is, what the node reports, and what went wrong. */
export default function TaskPage() {
  const taskId = useParam('taskId')
  const may = useMay()
  const [cancelling, setCancelling] = useState(false)
  const types = useQuery(typesQuery)
  const task = useQuery({
    queryKey: ['tasks', 'one', taskId],
    queryFn: () => got(api.GET('/api/v1/admin/node-tasks/{task_id}', { params: { path: { task_id: taskId } } })),
    // What a node reports on the way is no event.
    refetchInterval: (query) => (query.state.data && !lasts(query.state.data) ? false : 2_000),
  })
  const t = task.data
  const title = titled(types.data?.items.find((x) => x.type === t?.type)?.title ?? t?.type ?? 'task')
  return (
    <Page
      back={<TextLink to="/tasks">Tasks</TextLink>}
      title={
        <>
          {title}
          {t && <State of="task" is={t.outcome === 'not_applicable' ? t.outcome : t.status} />}
          {t?.cancel_requested && lasts(t) && <Badge tone="warn">being stopped</Badge>}
        </>
      }
      actions={
        t &&
        lasts(t) &&
        !t.cancel_requested &&
        may('node_task:run') && (
          <Button look="danger" onClick={() => setCancelling(true)}>
            Cancel …
          </Button>
        )
      }
    >
      <Outdated of={task} />
      {task.isPending && <Loading what="the task" />}
      {t && <Shown task={t} />}
      {t && cancelling && <Cancel task={t} onClose={() => setCancelling(false)} />}
    </Page>
  )
}

function Shown({ task: t }: { task: Task }) {
  const nameOf = useNodeNames()
  const waiting = waitsFor(t)
  return (
    <>
      {waiting && <Note title={waiting} />}
      {t.error && (
        <Note tone={t.status === 'cancelled' ? 'warn' : 'bad'} title={t.error.message}>
          {t.error.remedy && <p>{t.error.remedy}</p>}
          <p className="mt-1 text-xs text-muted">{t.error.code}</p>
        </Note>
      )}
      <div className="grid grid-cols-1 gap-4 lg:grid-cols-2">
        <Card title="What and why">
          <Facts
            of={[
              ['Node', <TextLink key="n" to={`/nodes/${t.node_id}`}>{nameOf(t.node_id)}</TextLink>],
              ['Type', <Code key="t">{t.type}</Code>],
              ['Beside it', beside[t.concurrency_class] ?? words(t.concurrency_class)],
              ['Reason', t.reason],
              ['Requested by', <AskedBy key="b" who={t.requested_by} />],
              ...(t.workflow_id ? ([['Waited for by', <Code key="w">{t.workflow_id}</Code>]] as [string, ReactNode][]) : []),
              ['Correlation id', <TextLink key="c" to="/audit" search={{ correlation_id: t.correlation_id }}>{t.correlation_id}</TextLink>],
            ]}
          />
        </Card>
        <Card title="When">
          <Facts
            of={[
              ['Requested', <When key="a" at={t.created_at} />],
              ['Attempts', `${t.attempt} of ${t.max_attempts}`],
              ['Handed out', t.dispatched_at && <When at={t.dispatched_at} />],
              ['Begun on the node', t.started_at && <When at={t.started_at} />],
              ['Ended', t.finished_at && <When at={t.finished_at} />],
              [lasts(t) ? 'Lasts for' : 'Took', t.dispatched_at && <Elapsed from={t.dispatched_at} to={t.finished_at} />],
              ...(lasts(t)
                ? ([
                    ['Taken back', t.lease_expires_at && <span key="l">unless the node gives a sign of life, <When at={t.lease_expires_at} /></span>],
                    ['Expires', <When key="e" at={t.deadline_at} />],
                  ] as [string, ReactNode][])
                : []),
              ['Signed by', t.signer_version && <Code>{t.signer_version}</Code>],
              ...(lasts(t) ? [] : ([['Ended by agent', t.agent_version]] as [string, ReactNode][])),
            ]}
          />
        </Card>
      </div>
      <Steps steps={t.steps ?? []} lasts={lasts(t)} />
      <div className="grid grid-cols-1 gap-4 lg:grid-cols-2">
        <Card title="Parameters">
          <Json of={t.params} none="It was requested without parameters." />
        </Card>
        <Card title="Output">
          <Json of={t.output} none={lasts(t) ? 'The node reports it at the end.' : 'The node reported none.'} />
        </Card>
      </div>
    </>
  )
}

function AskedBy({ who }: { who: string }) {
  const by = askedBy(who)
  if (by.kind === 'job') return <TextLink to={jobPath(by.job)}>{by.job.kind}</TextLink>
  if (by.kind === 'system') return <>{by.name}</>
  return (
    <TextLink to="/audit" search={{ actor_id: by.id }}>
      {by.id}
    </TextLink>
  )
}

const beside: Record<string, string> = { exclusive: 'nothing may run beside it on the node', user: 'one task of its kind at a time', concurrent: 'others may run beside it' }

function Json({ of, none }: { of: unknown; none: string }) {
  if (of === undefined || of === null || JSON.stringify(of) === '{}') return <p className="text-sm text-muted">{none}</p>
  return <Code block>{JSON.stringify(of, null, 2)}</Code>
}

function Cancel({ task, onClose }: { task: Task; onClose: () => void }) {
  const queries = useQueryClient()
  return (
    <ReasonDialog
      title="Cancel the task"
      does="Cancel the task"
      danger
      act={(reason) => got(api.POST('/api/v1/admin/node-tasks/{task_id}/cancel', { params: { path: { task_id: task.task_id } }, body: { reason } }))}
      onDone={() => {
        say(task.status === 'queued' ? 'The task is cancelled.' : 'The node was asked to stop it.')
        void queries.invalidateQueries({ queryKey: ['tasks'] })
      }}
      onClose={onClose}
    >
      <p>{task.status === 'queued' ? 'No node has fetched it yet: it is cancelled immediately.' : 'The node is asked to stop; it does so as soon as that is safe, and reports back.'}</p>
      {task.workflow_id && <p>A workflow waits for it: what it is part of will park or take another way.</p>}
    </ReasonDialog>
  )
}
