import { useState } from 'react'
import { api, got } from '../../api/client'
import { usePages } from '../../api/pages'
import { useSearchState } from '../../app/location'
import { useMay } from '../../app/session'
import { Badge, Button, Empty, Loading, Page, State, TextLink } from '../../ui/basics'
import { SelectField } from '../../ui/form'
import { ProblemNote } from '../../ui/problem'
import { RowButton } from '../../ui/rowbutton'
import { Table, type Column } from '../../ui/table'
import { When } from '../../ui/time'
import { words } from '../../ui/tone'
import { Announce } from '../allocation/Announce'
import { ProjectName } from '../allocation/ProjectName'
import { useProjects, type Project } from '../allocation/projects'
import { inCommas } from '../allocation/queries'
import { answered, kindWords, open, statuses, type Maintenance } from './maintenance'
import { OneMaintenance } from './OneMaintenance'

const everybody = 'all'
const now = 'now'

/** Maintenances is what is announced to the tenants of nodes, what they answered, and how far it is. */
export default function Maintenances() {
  const may = useMay()
  const { projects, loading } = useProjects()
  const [search, change] = useSearchState()
  const [announcing, setAnnouncing] = useState(false)
  const seesAll = may('allocation:read')
  const chosen = projects.find((p) => p.project_id === search.project) ?? (seesAll ? undefined : projects[0])
  if (loading) return <Loading what="your projects" />
  const announce = may('allocation:force') && (
    <Button look="primary" onClick={() => setAnnouncing(true)}>
      Announce maintenance …
    </Button>
  )
  return (
    <Page title="Maintenance" lead="Work on rented nodes is announced to their tenants first, who agree where they are asked." actions={announce}>
      {!chosen && !seesAll && <Empty title="You are in no project yet">What is announced for what a project rents appears here.</Empty>}
      {(chosen ?? seesAll) && (
        <>
          <div className="grid gap-3 sm:grid-cols-3 lg:grid-cols-5">
            {(projects.length > 1 || (seesAll && projects.length > 0)) && (
              <SelectField label="Project" value={chosen?.project_id ?? everybody} onChange={(v) => change({ project: v === everybody ? undefined : v })} options={[...(seesAll ? [{ value: everybody, label: 'all of all tenants' }] : []), ...projects.map((p) => ({ value: p.project_id, label: p.name }))]} />
            )}
            <SelectField label="Status" value={search.status ?? now} onChange={(v) => change({ status: v === now ? undefined : v })} options={[{ value: now, label: 'open' }, { value: everybody, label: 'all, also what is over' }, ...statuses.map((s) => ({ value: s, label: words(s) }))]} />
          </div>
          <List key={chosen?.project_id ?? everybody} project={chosen} filter={search.status} />
        </>
      )}
      {announcing && <Announce onClose={() => setAnnouncing(false)} />}
    </Page>
  )
}

const project: Column<Maintenance> = { key: 'project', title: 'Project', width: 'minmax(9rem,1fr)', cell: (m) => <ProjectName id={m.project_id} /> }

const columnsWith = (look: (m: Maintenance) => void): Column<Maintenance>[] => [
  { key: 'node', title: 'Node', width: 'minmax(8rem,0.8fr)', cell: (m) => <TextLink to={`/allocations/${m.allocation_id}`}>{m.hostname}</TextLink> },
  { key: 'status', title: 'Status', width: '7.5rem', cell: (m) => <State of="maintenance" is={m.status} /> },
  { key: 'kind', title: 'What happens', width: 'minmax(9rem,0.9fr)', cell: (m) => (m.kind === 'release' ? <Badge tone="warn">{kindWords[m.kind]}</Badge> : kindWords[m.kind]) },
  { key: 'from', title: 'Not before', width: '8rem', cell: (m) => <When at={m.not_before} /> },
  { key: 'by', title: 'By', width: '8rem', cell: (m) => <When at={m.due_at} /> },
  { key: 'answer', title: 'Answer', width: 'minmax(10rem,1.2fr)', cell: answered },
  { key: 'reason', title: 'Why', width: 'minmax(10rem,1.2fr)', cell: (m) => m.reason },
  { key: 'look', title: 'More', width: '6rem', cell: (m) => <RowButton label={`Look at the maintenance of ${m.hostname}`} text="Look …" onClick={() => look(m)} /> },
]

function List({ project: of, filter }: { project?: Project; filter?: string }) {
  const [looked, setLooked] = useState<Maintenance>()
  const status = filter === everybody ? undefined : filter ? statuses.filter((s) => s === filter) : open
  const pages = usePages(
    ['allocations', 'maintenances', of?.project_id ?? everybody, filter],
    (cursor) =>
      of
        ? got(api.GET('/api/v1/projects/{project_id}/maintenances', { params: { path: { project_id: of.project_id }, query: { status, cursor, page_size: 100 } }, querySerializer: inCommas }))
        : got(api.GET('/api/v1/admin/maintenances', { params: { query: { status, cursor, page_size: 100 } }, querySerializer: inCommas })),
    { refetchInterval: 15_000 },
  )
  const columns = columnsWith(setLooked)
  const shown = looked && (pages.rows.find((m) => m.maintenance_id === looked.maintenance_id) ?? looked)
  if (pages.loading) return <Loading what="maintenance" />
  if (pages.error && pages.rows.length === 0) return <ProblemNote error={pages.error} onRetry={pages.retry} />
  return (
    <>
      {pages.error && <ProblemNote error={pages.error} onRetry={pages.retry} />}
      <Table
        label="Maintenance"
        columns={of ? columns : [columns[0] ?? project, project, ...columns.slice(1)]}
        rows={pages.rows}
        rowKey={(m) => m.maintenance_id}
        onOpen={setLooked}
        more={pages.more}
        stale={pages.stale}
        empty={
          <Empty title={filter ? 'No maintenance has this status' : 'Nothing is announced'}>
            {filter ? 'Choose another status to see the others.' : of ? 'When operators want to work on a node that the project rents, it appears here and on the allocation.' : 'Announce what you want to do to nodes that somebody rents: their tenants are told, or asked.'}
          </Empty>
        }
      />
      {shown && <OneMaintenance maintenance={shown} onClose={() => setLooked(undefined)} />}
    </>
  )
}
