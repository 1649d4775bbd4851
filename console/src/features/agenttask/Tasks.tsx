import { enums } from '../../api/gen/enums'
import { useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { api, got } from '../../api/client'
import { usePages } from '../../api/pages'
import { useSearchState } from '../../app/location'
import { Empty, LinkButton, Loading, Page, State, TextLink } from '../../ui/basics'
import { chips, Filters } from '../../ui/filters'
import { SelectField } from '../../ui/form'
import { Table, type Column } from '../../ui/table'
import { Elapsed, When } from '../../ui/time'
import { Outdated, outdatedOf } from '../job/Outdated'
import { useNodeNames } from './nodeNames'
import { titled, type Task } from './task'

const statuses = enums['list-all-node-tasks.status']

// That a task was handed out is no event.
const readEvery = 5_000

export const typesQuery = { queryKey: ['task-types'], queryFn: () => got(api.GET('/api/v1/admin/node-task-types')), staleTime: Infinity }

/** Tasks is what nodes were asked to do, the newest first. */
export default function Tasks() {
  const [search, change] = useSearchState()
  const navigate = useNavigate()
  const nameOf = useNodeNames()
  const types = useQuery(typesQuery)
  const titles = new Map(types.data?.items.map((t) => [t.type, titled(t.title)]))
  const typeOptions = [...titles].map(([value, label]) => ({ value, label: `${label} (${value})` }))
  const { node, type } = search
  const status = statuses.find((s) => s === search.status)
  const pages = usePages(
    ['tasks', 'list', node, status, type],
    (cursor) => {
      const query = { status, type, cursor, page_size: 100 }
      return node ? got(api.GET('/api/v1/admin/nodes/{node_id}/tasks', { params: { path: { node_id: node }, query } })) : got(api.GET('/api/v1/admin/node-tasks', { params: { query } }))
    },
    { refetchInterval: readEvery },
  )
  const filtered = [node, status, type].some(Boolean)
  return (
    <Page title="Tasks" lead="What nodes were asked to do: signed here, fetched by the agent of the node, carried out and reported back.">
      <Filters
        active={chips(search, change, [{ key: 'status', label: 'Status', options: [...statuses] }, { key: 'type', label: 'Type', options: typeOptions }, { key: 'node', label: 'Node', options: node ? [{ value: node, label: nameOf(node) }] : [] }])}
        onClearAll={() => change({ status: undefined, type: undefined, node: undefined })}
        more={
          <>
            <SelectField label="Status" value={status ?? ''} onChange={(s) => change({ status: s })} options={[{ value: '', label: 'all' }, ...statuses]} />
            <SelectField label="Type" value={type ?? ''} onChange={(t) => change({ type: t })} options={[{ value: '', label: 'all' }, ...typeOptions]} />
          </>
        }
      />
      <Outdated of={outdatedOf(pages)} />
      {pages.loading ? (
        <Loading what="tasks" />
      ) : (
        !(pages.error && pages.rows.length === 0) && (
          <Table
            label="Tasks"
            columns={columns(nameOf, titles)}
            rows={pages.rows}
            rowKey={(t) => t.task_id}
            onOpen={(t) => void navigate({ to: `/tasks/${t.task_id}` })}
            more={pages.more}
            stale={pages.stale}
            empty={
              filtered ? (
                <Empty title="No task fits these filters">Remove a filter to see more.</Empty>
              ) : (
                <Empty title="No node was asked to do anything yet" action={<LinkButton to="/nodes">Go to nodes</LinkButton>}>
                  Onboarding and turnover run tasks on nodes when they need to. To run one yourself, open the node page.
                </Empty>
              )
            }
          />
        )
      )}
    </Page>
  )
}

function columns(nameOf: (id: string) => string, titles: Map<string, string>): Column<Task>[] {
  return [
    { key: 'created', title: 'Requested', width: '7rem', cell: (t) => <When at={t.created_at} /> },
    { key: 'type', title: 'Task', width: 'minmax(12rem, 1.4fr)', cell: (t) => <Cut><TextLink to={`/tasks/${t.task_id}`}>{titles.get(t.type) ?? t.type}</TextLink></Cut> },
    { key: 'node', title: 'Node', width: 'minmax(8rem, 1fr)', cell: (t) => <TextLink to={`/nodes/${t.node_id}`}>{nameOf(t.node_id)}</TextLink> },
    {
      key: 'status',
      title: 'Status',
      width: '10rem',
      cell: (t) => (
        <>
          <State of="task" is={t.outcome === 'not_applicable' ? t.outcome : t.status} />
          {t.cancel_requested && t.status === 'dispatched' && <span className="ml-1 text-xs text-muted">stopping</span>}
        </>
      ),
    },
    { key: 'attempt', title: 'Attempt', width: '5.5rem', align: 'right', cell: (t) => `${t.attempt} of ${t.max_attempts}` },
    { key: 'took', title: 'Took', width: '7rem', cell: (t) => t.dispatched_at && <Elapsed from={t.dispatched_at} to={t.finished_at} /> },
    { key: 'error', title: 'What went wrong', width: 'minmax(10rem, 1.4fr)', cell: (t) => t.error && <span className="text-bad">{t.error.message}</span> },
    { key: 'reason', title: 'Reason', width: 'minmax(8rem, 1fr)', cell: (t) => t.reason },
  ]
}

/** Cut shortens a link to its column, so that what is clicked is what is seen. */
function Cut({ children }: { children: ReactNode }) {
  return <span className="flex *:truncate">{children}</span>
}
