import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { api, got } from '../../api/client'
import { usePages } from '../../api/pages'
import { useSearchState } from '../../app/location'
import { useMay, useMe } from '../../app/session'
import { Button, Empty, LinkButton, Loading, Page, State, TextLink } from '../../ui/basics'
import { chips, Filters } from '../../ui/filters'
import { SelectField } from '../../ui/form'
import { ProblemNote } from '../../ui/problem'
import { Table, type Column } from '../../ui/table'
import { When } from '../../ui/time'
import { words } from '../../ui/tone'
import { mayIn } from '../access/roles'
import { PerHour, SoFar } from '../billing/AllocationCost'
import { called, current, states, type Allocation } from './allocation'
import { ProjectName } from './ProjectName'
import { useProjects, type Project } from './projects'
import { inCommas } from './queries'
import { Request } from './Request'
import { Requests } from './Waiting'

const everybody = 'all'
// What a project has comes first; what it had is a choice away.
const now = 'now'

const statusOptions = [{ value: now, label: 'current' }, { value: 'all', label: 'all, including ended' }, ...states.map((s) => ({ value: s, label: words(s) }))]

/** wanted is the states that a filter asks for; undefined is all of them. */
const wanted = (filter: string | undefined) => (filter === 'all' ? undefined : states.filter((s) => (filter && filter !== now ? s === filter : current.includes(s))))

/** Allocations is a tenant's home: what the project has, since when, and what it waits for; for operators, who is on which node. */
export default function Allocations() {
  const may = useMay()
  const me = useMe()
  const { projects, loading } = useProjects()
  const [search, change] = useSearchState()
  const [asking, setAsking] = useState(false)
  const seesAll = may('allocation:read')
  const chosen = projects.find((p) => p.project_id === search.project) ?? (seesAll ? undefined : projects[0])
  const mayAsk = chosen && mayIn(me, 'allocation:use', { orgId: chosen.org_id, projectId: chosen.project_id })
  const ask = mayAsk ? () => setAsking(true) : undefined
  if (loading) return <Loading what="your projects" />
  return (
    <Page
      title="Allocations"
      lead="Rent whole nodes for one project. Each node is checked before handover and erased afterwards, and you get a signed receipt for both."
      actions={
        chosen && (
          <>
            <LinkButton to={`/access/projects/${chosen.project_id}`} search={{ tab: 'renting' }}>
              Quotas and settings
            </LinkButton>
            {ask && (
              <Button look="primary" onClick={ask}>
                Rent …
              </Button>
            )}
          </>
        )
      }
    >
      {!chosen && !seesAll && <Empty title="You are in no project yet">Ask an administrator of a tenant or project for a role. They may ask for your id: it is on the page Access.</Empty>}
      {(chosen ?? seesAll) && (
        <>
          <Filters
            active={chips(search, change, [{ key: 'status', label: 'Status', options: statusOptions }])}
            onClearAll={() => change({ status: undefined })}
            more={<SelectField label="Status" value={search.status ?? now} onChange={(status) => change({ status: status === now ? undefined : status })} options={statusOptions} />}
          >
            {(projects.length > 1 || (seesAll && projects.length > 0)) && (
              <SelectField
                label="Project"
                value={chosen?.project_id ?? everybody}
                onChange={(v) => change({ project: v === everybody ? undefined : v })}
                options={[...(seesAll ? [{ value: everybody, label: 'all projects of all tenants' }] : []), ...projects.map((p) => ({ value: p.project_id, label: p.name }))]}
              />
            )}
          </Filters>
          <Requests key={`waiting ${chosen?.project_id ?? everybody}`} project={chosen} />
          <List key={chosen?.project_id ?? everybody} project={chosen} filter={search.status} onAsk={ask} />
        </>
      )}
      {asking && chosen && <Request project={chosen} onClose={() => setAsking(false)} />}
    </Page>
  )
}

const name: Column<Allocation> = { key: 'name', title: 'Name', width: 'minmax(9rem,1fr)', cell: (a) => <TextLink to={`/allocations/${a.allocation_id}`}>{called(a)}</TextLink> }
const project: Column<Allocation> = { key: 'project', title: 'Project', width: 'minmax(9rem,1fr)', cell: (a) => <ProjectName id={a.project_id} /> }
const columns: Column<Allocation>[] = [
  { key: 'status', title: 'Status', width: '8.5rem', cell: (a) => <State of="allocation" is={a.status} /> },
  { key: 'since', title: 'Since', width: '7rem', cell: (a) => <When at={a.status_changed_at} /> },
  { key: 'waits', title: 'Waits for', width: 'minmax(9rem,1.2fr)', cell: (a) => a.waiting_for ?? '' },
  { key: 'node', title: 'Node', width: 'minmax(7rem,0.8fr)', cell: (a) => a.hostname },
  { key: 'sku', title: 'SKU', width: 'minmax(9rem,1fr)', cell: (a) => a.sku },
  { key: 'who', title: 'Requested by', width: 'minmax(8rem,0.8fr)', cell: (a) => a.requested_by_name ?? a.requested_by },
  { key: 'ends', title: 'Ends', width: '7rem', cell: (a) => (a.expires_at ? <When at={a.expires_at} /> : 'never') },
]

// What was agreed is read of each that is in sight: of one project, not of all tenants.
const costs: Column<Allocation>[] = [
  { key: 'hour', title: 'An hour', width: '8rem', align: 'right', cell: (a) => <PerHour allocation={a} plain /> },
  { key: 'cost', title: 'Cost so far', width: '8.5rem', align: 'right', cell: (a) => <SoFar allocation={a} /> },
]

type Props = { project?: Project; filter?: string; onAsk?: () => void }

function List({ project: of, filter, onAsk }: Props) {
  const navigate = useNavigate()
  const status = wanted(filter)
  const pages = usePages(['allocations', of?.project_id ?? everybody, filter], (cursor) =>
    of
      ? got(api.GET('/api/v1/projects/{project_id}/allocations', { params: { path: { project_id: of.project_id }, query: { status, cursor, page_size: 100 } }, querySerializer: inCommas }))
      : got(api.GET('/api/v1/admin/allocations', { params: { query: { status, cursor, page_size: 100 } }, querySerializer: inCommas })),
  )
  if (pages.loading) return <Loading what="allocations" />
  if (pages.error && pages.rows.length === 0) return <ProblemNote error={pages.error} onRetry={pages.retry} />
  const nothing = filter ? (
    <Empty title="No allocation has this status">Choose another status to see the others.</Empty>
  ) : (
    <Empty title={of ? `${of.name} rents nothing now` : 'Nobody rents anything now'} action={onAsk && <Button onClick={onAsk}>Rent …</Button>}>
      What {of ? 'the project rents' : 'projects rent'} appears here, from the request on. What has ended, and its receipts, are under another status.
    </Empty>
  )
  return (
    <>
      {pages.error && <ProblemNote error={pages.error} onRetry={pages.retry} />}
      <Table
        label="Allocations"
        columns={of ? [name, ...columns, ...costs] : [name, project, ...columns]}
        rows={pages.rows}
        rowKey={(a) => a.allocation_id}
        onOpen={(a) => void navigate({ to: `/allocations/${a.allocation_id}` })}
        more={pages.more}
        stale={pages.stale}
        empty={nothing}
      />
    </>
  )
}
