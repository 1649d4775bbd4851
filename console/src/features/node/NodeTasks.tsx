import { enums } from '../../api/gen/enums'
import { useNavigate } from '@tanstack/react-router'
import { api, got, type Schemas } from '../../api/client'
import { usePages } from '../../api/pages'
import { useSearchState } from '../../app/location'
import { Empty, Loading, State } from '../../ui/basics'
import { SelectField } from '../../ui/form'
import { ProblemNote } from '../../ui/problem'
import { Table, type Column } from '../../ui/table'
import { Elapsed, When } from '../../ui/time'

type Task = Schemas['AgenttaskView']

const columns: Column<Task>[] = [
  { key: 'type', title: 'Task', width: 'minmax(11rem, 1.2fr)', cell: (t) => <span className="font-medium">{t.type}</span> },
  { key: 'status', title: 'State', width: 'minmax(7rem, 0.6fr)', cell: (t) => <State of="task" is={t.outcome === 'not_applicable' ? t.outcome : t.status} /> },
  { key: 'created', title: 'Requested', width: 'minmax(7rem, 0.7fr)', cell: (t) => <When at={t.created_at} /> },
  { key: 'took', title: 'Took', width: 'minmax(6rem, 0.6fr)', cell: (t) => t.dispatched_at && <Elapsed from={t.dispatched_at} to={t.finished_at} /> },
  { key: 'attempt', title: 'Attempt', width: 'minmax(5rem, 0.5fr)', align: 'right', cell: (t) => `${t.attempt} of ${t.max_attempts}` },
  { key: 'reason', title: 'Reason, or why it failed', width: 'minmax(14rem, 3fr)', cell: (t) => <span title={t.error?.message ?? t.reason} className={t.error ? 'text-bad' : ''}>{t.error?.message ?? t.reason}</span> },
]

// That a task was handed out is no event.
const readEvery = 5_000

const states = enums['list-node-tasks.status']

/** NodeTasks is what the node was asked to do, newest first. */
export function NodeTasks({ nodeId }: { nodeId: string }) {
  const [address, change] = useSearchState()
  const navigate = useNavigate()
  const status = states.find((s) => s === address.task_status)
  const tasks = usePages(['tasks', 'of-node', nodeId, status], (cursor) => got(api.GET('/api/v1/admin/nodes/{node_id}/tasks', { params: { path: { node_id: nodeId }, query: { cursor, status, page_size: 100 } } })), { refetchInterval: readEvery })
  return (
    <div className="flex flex-col gap-3">
      <div className="w-48">
        <SelectField label="State" value={status ?? ''} onChange={(v) => change({ task_status: v })} options={[{ value: '', label: 'Any state' }, ...states]} />
      </div>
      {tasks.error && <ProblemNote error={tasks.error} onRetry={tasks.retry} />}
      {tasks.loading ? (
        <Loading what="tasks" />
      ) : (
        <Table
          label="Tasks of the node"
          columns={columns}
          rows={tasks.rows}
          rowKey={(t) => t.task_id}
          more={tasks.more}
          stale={tasks.stale}
          onOpen={(t) => void navigate({ to: '/tasks/$taskId', params: { taskId: t.task_id } })}
          empty={!tasks.error && <Empty title={status ? 'No task is in this state' : 'No tasks yet'}>Jobs run tasks on a node when they need to. To run one yourself, choose Run a task.</Empty>}
        />
      )}
    </div>
  )
}
