import { useNavigate } from '@tanstack/react-router'
import { useCallback, type ReactNode } from 'react'
import { api, got } from '../../api/client'
import { usePages } from '../../api/pages'
import { useSearchState } from '../../app/location'
import { useMay } from '../../app/session'
import { Badge, Button, Empty, LinkButton, Loading, Page, State, TextLink } from '../../ui/basics'
import { SelectField } from '../../ui/form'
import { Table, type Column } from '../../ui/table'
import { When } from '../../ui/time'
import { FilterText } from '../../ui/filtertext'
import { batchTone } from '../job/batchtone'
import { BatchProgress } from '../job/BatchProgress'
import { Spent, StageName } from '../job/JobBoard'
import { actionTitle, statusChoices } from '../job/job'
import { useSites } from '../job/lookups'
import { Outdated, outdatedOf } from '../job/Outdated'
import { Section } from '../job/Section'
import { StageBar } from '../job/StageBar'
import { BulkDialog } from './BulkDialog'
import { useModes, type Decommission, type DecommissionBatch } from './decommission'
import { isMode, modes, modeWords, type Mode } from './modes'
import { PlanDialog } from './PlanDialog'
import { asWords } from './selector'

// What opens a dialog, and what it is to be about.
const asking = { plan: '', new: '', site_id: '', region_code: '', sku: '', sku_id: '', q: '', hostname_prefix: '', statuses: '', node_ids: '', drift_state: '', schedulable: '', agent: '', held: '', tainted: '' }

/** Decommissions is every operation that cleans, puts aside or removes nodes: what waits for somebody first. */
export default function Decommissions() {
  const [search, setSearch] = useSearchState()
  const may = useMay()
  // While a dialog is open, the address says what it is about, not what the lists show.
  const open = search.plan !== undefined || search.new !== undefined
  const mode = isMode(search.mode) ? search.mode : undefined
  const close = () => setSearch({ ...asking, mode: '', status: '' })
  const manage = may('decommission:manage')
  return (
    <Page
      title="Turnover"
      lead="Nodes that are cleaned for the next tenant, installed anew, put aside or taken out for good."
      actions={manage && <Button look="primary" onClick={() => setSearch({ new: '1', mode: '' })}>Turn many nodes over</Button>}
    >
      <Lists search={open ? {} : search} setSearch={setSearch} manage={manage} />
      {search.plan && <PlanDialog key={search.plan} nodeId={search.plan} mode={mode} onMode={(m) => setSearch({ mode: m })} onClose={close} />}
      {search.new && manage && <BulkDialog search={search} mode={mode} onMode={(m) => setSearch({ mode: m })} onClose={close} />}
    </Page>
  )
}

type Search = Record<string, string | undefined>

function Lists({ search, setSearch, manage }: { search: Search; setSearch: (patch: Search) => void; manage: boolean }) {
  const { sites } = useSites()
  const find = useCallback((hostname: string) => setSearch({ hostname }), [setSearch])
  const filtered = !!(search.status || search.mode || search.hostname || search.site || search.node)
  const all = useDecommissions('list', search)
  const parked = useDecommissions('parked', { ...search, status: 'failed' }, !search.status)
  const batches = usePages(['decommission-batches', 'list'], (cursor) => got(api.GET('/api/v1/admin/decommission-batches', { params: { query: { cursor } } })))
  if (all.loading) return <Loading what="operations" />
  if (!filtered && all.rows.length === 0 && !all.error) {
    return (
      <Empty title="No node was turned over yet" action={<LinkButton to="/nodes" look="primary">To the nodes</LinkButton>}>
        When a tenant leaves, its node is reset for the next one; before hardware goes back, it is decommissioned. Both clean, prove it and sign what was proven. Begin on the page of a node{manage ? ', or with many at once above' : ''}: the plan says what will be destroyed before anything happens.
      </Empty>
    )
  }
  const unread = all.error !== null && all.rows.length === 0
  return (
    <>
      <Outdated of={outdatedOf(all, parked, batches)} />
      <div className="grid gap-3 sm:grid-cols-4 lg:max-w-4xl">
        <FilterText label="Node" placeholder="name begins with" value={search.hostname ?? ''} onChange={find} />
        <SelectField label="Mode" value={search.mode ?? ''} onChange={(mode) => setSearch({ mode })} options={[{ value: '', label: 'Any mode' }, ...modes.map((m) => ({ value: m, label: modeWords(m).title }))]} />
        <SelectField label="Status" value={search.status ?? ''} onChange={(status) => setSearch({ status })} options={statusChoices} />
        <SelectField label="Site" value={search.site ?? ''} onChange={(site) => setSearch({ site })} options={[{ value: '', label: 'Any site' }, ...sites.map((s) => ({ value: s.site_id, label: s.name }))]} />
      </div>
      {search.node && (
        <p className="text-sm">
          Only those of one node. <Button look="quiet" onClick={() => setSearch({ node: '' })}>Show all</Button>
        </p>
      )}
      {parked.rows.length > 0 && (
        <Section title="Parked: they wait for you" count={parked.rows.length} more={parked.hasMore}>
          <DecommissionTable label="Parked operations" pages={parked} parked />
        </Section>
      )}
      {!filtered && batches.rows.length > 0 && (
        <Section title="Batches" count={batches.rows.length} more={batches.hasMore}>
          <BatchTable rows={batches.rows} more={batches.more} siteName={(id) => sites.find((s) => s.site_id === id)?.name ?? id} />
        </Section>
      )}
      {!unread && (
        <Section title={filtered ? 'What fits' : 'All, newest first'} count={all.rows.length} more={all.hasMore}>
          <DecommissionTable label="Operations" pages={all} empty={<Empty title="Nothing fits">Choose another mode, status or site, or a shorter beginning of the name.</Empty>} />
        </Section>
      )}
    </>
  )
}

function useDecommissions(name: string, { status, mode, site, hostname, node }: Search, enabled = true) {
  const only: Mode | undefined = isMode(mode) ? mode : undefined
  return usePages(
    ['decommissions', name, { status, only, site, hostname, node }],
    (cursor) => got(api.GET('/api/v1/admin/decommissions', { params: { query: { cursor, status: status ? [status] : undefined, mode: only, site_id: site, node_id: node, hostname: hostname?.toLowerCase() } } })),
    { enabled },
  )
}

type Pages = ReturnType<typeof usePages<Decommission>>

function DecommissionTable({ label, pages, parked, empty }: { label: string; pages: Pages; parked?: boolean; empty?: ReactNode }) {
  const known = useModes() ?? []
  const navigate = useNavigate()
  const stagesOf = (d: Decommission) => known.find((k) => k.mode === d.mode)?.stages ?? []
  const columns: Column<Decommission>[] = [
    { key: 'hostname', title: 'Node', width: 'minmax(8rem, 1fr)', cell: (d) => <TextLink to={`/decommissions/${d.decommission_id}`}>{d.hostname}</TextLink> },
    { key: 'mode', title: 'Mode', width: '10.5rem', cell: (d) => modeWords(d.mode).title },
    { key: 'status', title: 'Status', width: '9.5rem', cell: (d) => <State of="job" is={d.status} /> },
    { key: 'bar', title: 'Stages', width: 'minmax(8rem, 1fr)', cell: (d) => <StageBar status={d.status} stage={d.current_stage} stages={stagesOf(d)} /> },
    { key: 'stage', title: 'Stage', width: 'minmax(10rem, 1.4fr)', cell: (d) => <StageName row={d} title={stagesOf(d).find((s) => s.name === d.current_stage)?.title} /> },
    ...(parked ? parkedColumns : plainColumns),
  ]
  return <Table label={label} columns={columns} rows={pages.rows} rowKey={(d) => d.decommission_id} onOpen={(d) => void navigate({ to: `/decommissions/${d.decommission_id}` })} more={pages.more} stale={pages.stale} empty={empty} />
}

const plainColumns: Column<Decommission>[] = [
  { key: 'took', title: 'Took', width: '7rem', align: 'right', cell: (d) => <Spent row={d} /> },
  { key: 'reason', title: 'Why', width: 'minmax(8rem, 1.4fr)', cell: (d) => <span title={d.reason}>{d.reason}</span> },
  { key: 'left', title: 'Left to do', width: '6rem', cell: (d) => (d.follow_ups.length > 0 ? <Badge tone="warn">{d.follow_ups.length} to do</Badge> : '') },
  { key: 'asked', title: 'Asked for', width: '7rem', cell: (d) => <When at={d.requested_at} /> },
]

const parkedColumns: Column<Decommission>[] = [
  { key: 'since', title: 'Parked', width: '7rem', cell: (d) => <When at={d.parked_at} /> },
  {
    key: 'why',
    title: 'Why, and what to do',
    width: 'minmax(14rem, 2.5fr)',
    cell: (d) => (
      <span title={d.failure?.error_message}>
        {d.recommended_action && <Badge tone="accent">{actionTitle(d.recommended_action)}</Badge>} <span className="text-bad">{d.failure?.error_message}</span>
      </span>
    ),
  },
]

function BatchTable({ rows, more, siteName }: { rows: DecommissionBatch[]; more?: () => void; siteName: (id: string) => string }) {
  const navigate = useNavigate()
  const columns: Column<DecommissionBatch>[] = [
    { key: 'asked', title: 'Batch', width: 'minmax(8rem, 1fr)', cell: (b) => <TextLink to={`/decommission-batches/${b.batch_id}`}><When at={b.requested_at} /></TextLink> },
    { key: 'mode', title: 'Mode', width: '10.5rem', cell: (b) => modeWords(b.mode).title },
    { key: 'state', title: 'State', width: '7rem', cell: (b) => <Badge tone={batchTone(b.state, b.failed)}>{b.state}</Badge> },
    { key: 'progress', title: 'Progress', width: 'minmax(9rem, 1.5fr)', cell: (b) => <BatchProgress total={b.total} succeeded={b.succeeded} failed={b.failed} /> },
    { key: 'parked', title: 'Parked', width: '5.5rem', align: 'right', cell: (b) => <span className={b.failed > 0 ? 'text-bad' : ''}>{b.failed}</span> },
    { key: 'who', title: 'Which nodes', width: 'minmax(12rem, 2fr)', cell: (b) => asWords(b.selector, siteName) },
    { key: 'reason', title: 'Why', width: 'minmax(8rem, 1.4fr)', cell: (b) => <span title={b.reason}>{b.reason}</span> },
  ]
  return <Table label="Batches" columns={columns} rows={rows} rowKey={(b) => b.batch_id} onOpen={(b) => void navigate({ to: `/decommission-batches/${b.batch_id}` })} more={more} height={rows.length > 6 ? '16rem' : undefined} />
}
