import { useNavigate } from '@tanstack/react-router'
import { usePages } from '../../api/pages'
import { useSearchState } from '../../app/location'
import { useMay, useMe } from '../../app/session'
import { Badge, Empty, LinkButton, Loading, Page, State, TextLink } from '../../ui/basics'
import { FilterText } from '../../ui/filtertext'
import { SelectField } from '../../ui/form'
import { ProblemNote } from '../../ui/problem'
import { Table, type Column } from '../../ui/table'
import { When } from '../../ui/time'
import { words } from '../../ui/tone'
import { ProjectName } from '../allocation/ProjectName'
import { useProjects, type Project } from '../allocation/projects'
import { condition, countsWords, mayRunSomewhere, states, type Run } from './operation'
import { listRuns, runsKey } from './queries'

const everybody = 'all'

/** Runs is what was and is run on nodes: of a project, or for operators of the platform and everybody. */
export default function Runs() {
  const may = useMay()
  const me = useMe()
  const { projects, loading } = useProjects()
  const [search, change] = useSearchState()
  const seesAll = may('operation:read')
  const chosen = projects.find((p) => p.project_id === search.project) ?? (seesAll ? undefined : projects[0])
  if (loading) return <Loading what="your projects" />
  return (
    <Page
      title="Operations"
      lead="Run versioned work on nodes: packages, files, services, checks. You can resume a failed run at its failed step and read everything that a step printed."
      actions={
        <>
          <LinkButton to="/operations/policies" search={chosen ? { project: chosen.project_id } : {}}>
            Policies
          </LinkButton>
          <LinkButton to="/operations/catalog">Catalog</LinkButton>
          {mayRunSomewhere(me) && (
            <LinkButton look="primary" to="/operations/new" search={chosen ? { project: chosen.project_id } : {}}>
              Run …
            </LinkButton>
          )}
        </>
      }
    >
      {!chosen && !seesAll && <Empty title="You are in no project yet">Ask an administrator of a tenant or project for a role. Its runs then appear here.</Empty>}
      {(chosen ?? seesAll) && (
        <>
          <div className="grid gap-3 sm:grid-cols-3 lg:grid-cols-5">
            {(projects.length > 1 || (seesAll && projects.length > 0)) && (
              <SelectField
                label="Project"
                value={chosen?.project_id ?? everybody}
                onChange={(v) => change({ project: v === everybody ? undefined : v })}
                options={[...(seesAll ? [{ value: everybody, label: 'of the platform and all projects' }] : []), ...projects.map((p) => ({ value: p.project_id, label: p.name }))]}
              />
            )}
            <SelectField label="Status" value={search.status ?? ''} onChange={(status) => change({ status })} options={[{ value: '', label: 'any' }, ...states.map((s) => ({ value: s, label: words(s) }))]} />
            <FilterText label="Type" value={search.type ?? ''} onChange={(type) => change({ type })} placeholder="node.health.check" />
          </div>
          <List key={chosen?.project_id ?? everybody} project={chosen} status={states.find((s) => s === search.status)} type={search.type} node={search.node} />
        </>
      )}
    </Page>
  )
}

const pageOf = (r: Run) => ({ to: `/operations/${r.operation_id}`, search: r.project_id ? { project: r.project_id } : {} })

const columns: Column<Run>[] = [
  { key: 'what', title: 'What', width: 'minmax(13rem,1.4fr)', cell: (r) => <TextLink {...pageOf(r)}>{`${r.operation_type}@${r.version}`}</TextLink> },
  { key: 'status', title: 'Status', width: '12rem', cell: (r) => <Standing run={r} /> },
  { key: 'targets', title: 'Nodes', width: 'minmax(10rem,1fr)', cell: (r) => countsWords(r.targets) },
  { key: 'waits', title: 'Waits for', width: 'minmax(9rem,1fr)', cell: (r) => r.waiting_for ?? '' },
  { key: 'who', title: 'Requested by', width: 'minmax(8rem,0.8fr)', cell: (r) => r.requested_by_name ?? r.requested_by },
  { key: 'when', title: 'Requested', width: '7rem', cell: (r) => <When at={r.created_at} /> },
]
const project: Column<Run> = { key: 'project', title: 'Project', width: 'minmax(9rem,1fr)', cell: (r) => (r.project_id ? <ProjectName id={r.project_id} /> : 'the platform') }

/** Standing is the state of a run, with what holds it up. */
function Standing({ run }: { run: Run }) {
  const held = condition(run)
  return (
    <span className="flex gap-1">
      <State of="operation" is={run.status} />
      {held && <Badge tone={held.tone}>{held.words}</Badge>}
    </span>
  )
}

function List({ project: of, status, type, node }: { project?: Project; status?: Run['status']; type?: string; node?: string }) {
  const navigate = useNavigate()
  const pages = usePages([...runsKey, 'list', of?.project_id ?? everybody, status, type, node], (cursor) => listRuns({ projectId: of?.project_id }, { status: status && [status], type, node_id: node, cursor }), { refetchInterval: 15_000 })
  if (pages.loading) return <Loading what="runs" />
  if (pages.error && pages.rows.length === 0) return <ProblemNote error={pages.error} onRetry={pages.retry} />
  const nothing =
    status || type || node ? (
      <Empty title="There is no such run">Choose another status or type to see the others.</Empty>
    ) : (
      <Empty title="No runs yet" action={<LinkButton to="/operations/catalog">See what can be run</LinkButton>}>
        Runs stay listed here after they end.
      </Empty>
    )
  return (
    <>
      {pages.error && <ProblemNote error={pages.error} onRetry={pages.retry} />}
      <Table label="Runs" columns={of ? columns : [...columns.slice(0, 1), project, ...columns.slice(1)]} rows={pages.rows} rowKey={(r) => r.operation_id} onOpen={(r) => void navigate(pageOf(r))} more={pages.more} stale={pages.stale} empty={nothing} />
    </>
  )
}
