import { useQuery } from '@tanstack/react-query'
import { asRefusal } from '../../api/client'
import { useParam, useSearchState } from '../../app/location'
import { useMay } from '../../app/session'
import { Badge, Card, Code, Facts, Loading, Note, Page, State, TextLink } from '../../ui/basics'
import { ProblemNote } from '../../ui/problem'
import { Tabs, type Tab } from '../../ui/tabs'
import { exact, span, When } from '../../ui/time'
import { ProjectName } from '../allocation/ProjectName'
import { approvalWords, type Definition } from '../definition/definition'
import { useDefinition } from '../definition/reading'
import { Actions } from './Actions'
import { Board } from './Board'
import { Changes } from './Changes'
import { Log } from './Log'
import { condition, countsWords, hasEnded, type Run } from './operation'
import { readRun, runsKey, type Where } from './queries'

/** RunPage is one run: its nodes and steps as they go, what they print, and what was asked for. */
export default function RunPage() {
  const id = useParam('operationId')
  const may = useMay()
  const [search] = useSearchState()
  // Whoever sees all runs reads it as such; others, as one of their project.
  const where: Where = { projectId: may('operation:read') ? undefined : search.project }
  const run = useQuery({
    queryKey: [...runsKey, 'one', id, where.projectId],
    queryFn: () => readRun(where, id),
    // Whoever may not read it is not let in by asking again, and each denial is recorded.
    refetchInterval: ({ state }) => ((state.data && hasEnded(state.data)) || (state.error && asRefusal(state.error).status === 403) ? false : 3_000),
  })
  const back = <TextLink to="/operations" search={search.project ? { project: search.project } : {}}>Operations</TextLink>
  if (run.data) return <Shown key={id} where={where} run={run.data} problem={run.error} onRetry={() => void run.refetch()} />
  return (
    <Page back={back} title="Run">
      {run.error ? <ProblemNote error={run.error} onRetry={() => void run.refetch()} /> : <Loading what="the run" />}
    </Page>
  )
}

function Shown({ where, run, problem, onRetry }: { where: Where; run: Run; problem: unknown; onRetry: () => void }) {
  const [search, change] = useSearchState()
  const definition = useDefinition(`${run.operation_type}@${run.version}`)
  const held = condition(run)
  const tabs: Tab[] = [
    { key: 'board', title: 'Nodes and steps', body: () => <Board where={where} run={run} defined={definition.data?.steps} /> },
    { key: 'log', title: 'Log', body: () => <Log where={where} run={run} defined={definition.data?.steps} /> },
    { key: 'changes', title: 'Changes', body: () => <Changes where={where} run={run} defined={definition.data?.steps} /> },
    { key: 'request', title: 'Request', body: () => <Request run={run} /> },
  ]
  return (
    <Page
      back={<TextLink to="/operations" search={run.project_id ? { project: run.project_id } : {}}>Operations</TextLink>}
      title={
        <>
          {definition.data?.title ?? run.operation_type} <State of="operation" is={run.status} />
          {held && <Badge tone={held.tone}>{held.words}</Badge>}
          {run.only_plan && <Badge tone="info">dry run</Badge>}
        </>
      }
      lead={
        <>
          {run.operation_type}@{run.version}, requested by {run.requested_by_name ?? run.requested_by} <When at={run.created_at} />: {countsWords(run.targets)}.
        </>
      }
      actions={<Actions where={where} run={run} />}
    >
      {!!problem && <ProblemNote error={problem} onRetry={onRetry} />}
      <Standing run={run} />
      <Tabs label="Run" tabs={tabs} shown={search.tab ?? 'board'} onShow={(tab) => change({ tab: tab === 'board' ? undefined : tab })} />
    </Page>
  )
}

/** Standing says what a run waits for, or why it ended as it did. */
function Standing({ run }: { run: Run }) {
  if (run.status === 'failed') return <Note tone="bad" title={run.error_message ?? 'It failed.'}>Fix the cause, then resume the run: nodes continue at the step that failed, and steps that succeeded are not repeated.</Note>
  if (run.status === 'canceled') return <Note tone="warn" title={run.error_message ?? 'It was stopped before every node was done.'}>{run.cancel_reason && <p>Reason: {run.cancel_reason}</p>}</Note>
  if (run.approval?.awaited) {
    return (
      <Note tone="warn" title={`It waits for approval by ${approvalWords[run.approval.role as Definition['approval']]}.`}>
        {run.approval.expires_at && <p>Until {exact(run.approval.expires_at)}; then it is canceled.</p>}
      </Note>
    )
  }
  if (run.cancel_requested) return <Note tone="warn" title="The run is being stopped">No further node starts; running nodes stop at the next safe point. {run.waiting_for}</Note>
  if (run.paused) return <Note tone="warn" title="The run is paused: no further node starts">{run.pause_reason}</Note>
  return run.waiting_for ? <Note title={`Waiting for: ${run.waiting_for}`} /> : null
}

function Request({ run }: { run: Run }) {
  return (
    <div className="grid gap-4 lg:grid-cols-2">
      <Card title="The run">
        <Facts
          of={[
            ['Definition', <TextLink key="d" to={`/operations/catalog/${run.operation_type}@${run.version}`}>{`${run.operation_type}@${run.version}`}</TextLink>],
            ['Digest of the definition', <Code key="g">{run.digest}</Code>],
            ['Project', run.project_id ? <ProjectName key="p" id={run.project_id} /> : 'the platform'],
            ['Reason', run.reason],
            ['Nodes at a time', `${run.max_concurrency}${run.ramp ? ', beginning with 1, 2, 4 …' : ''}`],
            ['Pauses', `when more than ${run.max_failures} nodes have failed`],
            ['Time limit per node', `${span(run.timeout_seconds)} for all steps`],
            ['Approved by', run.approval && !run.approval.awaited ? run.approval.approved_by : undefined],
            ['Resumed', run.resumes === 0 ? 'never' : `${run.resumes} times`],
            ['Repeat of', run.again_of && <TextLink key="a" to={`/operations/${run.again_of}`} search={run.project_id ? { project: run.project_id } : {}}>an earlier run</TextLink>],
            ['Began', run.started_at && <When key="s" at={run.started_at} exactly />],
            ['Ended', run.finished_at && <When key="f" at={run.finished_at} exactly />],
            ['Id', <Code key="i">{run.operation_id}</Code>],
            ['Plan', <Code key="h">{run.plan_hash}</Code>],
          ]}
        />
      </Card>
      <div className="flex min-w-0 flex-col gap-4">
        <Card title="Inputs, with defaults">
          <Code block>{JSON.stringify(run.inputs, null, 2)}</Code>
        </Card>
        <Card title="What the policy said">
          <PolicyLines lines={run.policy} />
        </Card>
      </div>
    </div>
  )
}

function PolicyLines({ lines }: { lines: Run['policy'] }) {
  return <Facts of={lines.map((l) => [l.key.replaceAll('_', ' '), <span key={l.key}>{l.value} <span className="text-muted">({l.rule})</span></span>])} />
}
