import { enums } from '../../api/gen/enums'
import { api, got } from '../../api/client'
import { usePages } from '../../api/pages'
import { useSearchState } from '../../app/location'
import { useMay } from '../../app/session'
import { Badge, Button, Empty, LinkButton, Loading, Page } from '../../ui/basics'
import { words } from '../../ui/tone'
import { batchColumns, jobColumns, JobFilters, JobLists } from '../job/JobLists'
import { useSiteName } from '../job/lookups'
import { BulkDialog } from './BulkDialog'
import { turnover, useModes, type Decommission } from './decommission'
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
      lead="Nodes that are being cleaned for the next tenant, reinstalled, retired or removed for good."
      actions={manage && <Button look="primary" onClick={() => setSearch({ new: '1', mode: '' })}>Turn over many nodes</Button>}
    >
      <Lists search={open ? {} : search} setSearch={setSearch} manage={manage} />
      {search.plan && <PlanDialog key={search.plan} nodeId={search.plan} mode={mode} onMode={(m) => setSearch({ mode: m })} onClose={close} />}
      {search.new && manage && <BulkDialog search={search} mode={mode} onMode={(m) => setSearch({ mode: m })} onClose={close} />}
    </Page>
  )
}

const batch = batchColumns(turnover)
const outcomes = enums['list-decommissions.outcome']
const modeColumn = { key: 'mode', title: 'Mode', width: '10.5rem', cell: (row: { mode: Mode }) => modeWords(row.mode).title }

type Search = Record<string, string | undefined>

function Lists({ search, setSearch, manage }: { search: Search; setSearch: (patch: Search) => void; manage: boolean }) {
  const siteName = useSiteName()
  const known = useModes()
  const filtered = !!(search.status || search.mode || search.outcome || search.hostname || search.site || search.node)
  const all = useDecommissions('list', search)
  const parked = useDecommissions('parked', { ...search, status: 'failed' }, !search.status && !search.outcome)
  const batches = usePages(['decommission-batches', 'list'], (cursor) => got(api.GET('/api/v1/admin/decommission-batches', { params: { query: { cursor } } })))
  const column = jobColumns<Decommission>(turnover, (d) => known?.find((k) => k.mode === d.mode)?.stages ?? [])
  const standing = [column.name, modeColumn, column.status, column.bar, column.stage]
  if (all.loading) return <Loading what="turnovers" />
  if (!filtered && all.rows.length === 0 && !all.error) {
    return (
      <Empty title="No turnovers yet" action={<LinkButton to="/nodes" look="primary">Go to nodes</LinkButton>}>
        Soft reset a node when its tenant leaves; fully decommission it before you return the hardware. Both record what was cleaned and what was not, and sign that record. Start on the node page{manage ? ', or with several nodes above' : ''}: a plan shows what will be destroyed before anything happens.
      </Empty>
    )
  }
  return (
    <JobLists
      kind={turnover}
      all={all}
      parked={parked}
      batches={batches}
      filtered={filtered}
      columns={[
        ...standing,
        column.took,
        { key: 'reason', title: 'Why', width: 'minmax(8rem, 1.4fr)', cell: (d) => <span title={d.reason}>{d.reason}</span> },
        { key: 'left', title: 'Left to do', width: '6rem', cell: (d) => (d.follow_ups.length > 0 ? <Badge tone="warn">{d.follow_ups.length} to do</Badge> : '') },
        column.asked,
      ]}
      parkedColumns={[...standing, column.since, column.why]}
      batchColumns={[
        batch.asked,
        modeColumn,
        batch.state,
        batch.progress,
        batch.parked,
        { key: 'who', title: 'Which nodes', width: 'minmax(12rem, 2fr)', cell: (b) => asWords(b.selector, siteName) },
        { key: 'reason', title: 'Why', width: 'minmax(8rem, 1.4fr)', cell: (b) => <span title={b.reason}>{b.reason}</span> },
      ]}
      otherwise="Choose another mode, status or site, or type less of the name."
    >
      <JobFilters
        kind={turnover}
        search={search}
        setSearch={setSearch}
        choices={[
          { key: 'mode', label: 'Mode', options: [{ value: '', label: 'Any mode' }, ...modes.map((m) => ({ value: m, label: modeWords(m).title }))] },
          { key: 'outcome', label: 'Outcome', options: [{ value: '', label: 'Any outcome' }, ...outcomes.map((o) => ({ value: o, label: words(o) }))] },
        ]}
      />
      {search.node && (
        <p className="text-sm">
          Showing one node only. <Button look="quiet" onClick={() => setSearch({ node: '' })}>Show all</Button>
        </p>
      )}
    </JobLists>
  )
}

function useDecommissions(name: string, { status, mode, outcome, site, hostname, node }: Search, enabled = true) {
  const only: Mode | undefined = isMode(mode) ? mode : undefined
  const reached = outcomes.find((o) => o === outcome)
  return usePages(
    ['decommissions', name, { status, only, reached, site, hostname, node }],
    (cursor) => got(api.GET('/api/v1/admin/decommissions', { params: { query: { cursor, status: status ? [status] : undefined, mode: only, outcome: reached, site_id: site, node_id: node, hostname: hostname?.toLowerCase() } } })),
    { enabled },
  )
}
