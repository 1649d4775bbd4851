import { useNavigate } from '@tanstack/react-router'
import { useCallback, type ReactNode } from 'react'
import { api, got } from '../../api/client'
import { usePages } from '../../api/pages'
import { useSearchState } from '../../app/location'
import { useMay } from '../../app/session'
import { Badge, Empty, LinkButton, Loading, Page, State, TextLink } from '../../ui/basics'
import { SelectField } from '../../ui/form'
import { Table, type Column } from '../../ui/table'
import { When } from '../../ui/time'
import { FilterText } from '../../ui/filtertext'
import { batchTone } from '../job/batchtone'
import { BatchProgress } from '../job/BatchProgress'
import { Spent, StageName } from '../job/JobBoard'
import { actionTitle, statusChoices, type Stage } from '../job/job'
import { useSites } from '../job/lookups'
import { Outdated, outdatedOf } from '../job/Outdated'
import { Section } from '../job/Section'
import { StageBar } from '../job/StageBar'
import { useStages, type Onboarding, type OnboardingBatch } from './onboarding'

/** Onboardings is all work that turns machines into nodes: what waits for somebody first. */
export default function Onboardings() {
  const [search, setSearch] = useSearchState()
  const find = useCallback((hostname: string) => setSearch({ hostname }), [setSearch])
  const may = useMay()
  const { sites } = useSites()
  const filtered = !!(search.status || search.site || search.hostname)
  const all = useOnboardings('list', search)
  const parked = useOnboardings('parked', { ...search, status: 'failed' }, !search.status)
  const batches = usePages(['onboarding-batches', 'list'], (cursor) => got(api.GET('/api/v1/admin/onboarding-batches', { params: { query: { cursor } } })))
  const start = may('onboarding:manage') && (
    <LinkButton to="/onboardings/new" look="primary">
      Onboard machines
    </LinkButton>
  )
  if (all.loading) return <Page title="Onboarding"><Loading what="onboardings" /></Page>
  if (!filtered && all.rows.length === 0 && !all.error) return <NothingYet start={start} sites={sites.length} />
  const unread = all.error !== null && all.rows.length === 0
  return (
    <Page title="Onboarding" lead="Machines on their way to becoming nodes." actions={start}>
      <Outdated of={outdatedOf(all, parked, batches)} />
      <div className="grid gap-3 sm:grid-cols-3 lg:max-w-3xl">
        <FilterText label="Machine" placeholder="name begins with" value={search.hostname ?? ''} onChange={find} />
        <SelectField label="Status" value={search.status ?? ''} onChange={(status) => setSearch({ status })} options={statusChoices} />
        <SelectField label="Site" value={search.site ?? ''} onChange={(site) => setSearch({ site })} options={[{ value: '', label: 'Any site' }, ...sites.map((s) => ({ value: s.site_id, label: s.name }))]} />
      </div>
      {parked.rows.length > 0 && (
        <Section title="Parked: they wait for you" count={parked.rows.length} more={parked.hasMore}>
          <OnboardingTable label="Parked onboardings" pages={parked} parked />
        </Section>
      )}
      {!filtered && batches.rows.length > 0 && (
        <Section title="Batches" count={batches.rows.length} more={batches.hasMore}>
          <BatchTable rows={batches.rows} more={batches.more} siteName={(id) => sites.find((s) => s.site_id === id)?.name ?? id} />
        </Section>
      )}
      {!unread && (
        <Section title={filtered ? 'What fits' : 'All, newest first'} count={all.rows.length} more={all.hasMore}>
          <OnboardingTable label="Onboardings" pages={all} empty={<Empty title="Nothing fits">Choose another status or site, or a shorter beginning of the name.</Empty>} />
        </Section>
      )}
    </Page>
  )
}

function useOnboardings(name: string, search: Record<string, string | undefined>, enabled = true) {
  const { status, site, hostname } = search
  return usePages(
    ['onboardings', name, { status, site, hostname }],
    (cursor) => got(api.GET('/api/v1/admin/onboardings', { params: { query: { cursor, status: status ? [status] : undefined, site_id: site, hostname: hostname?.toLowerCase() } } })),
    { enabled },
  )
}

function NothingYet({ start, sites }: { start: ReactNode; sites: number }) {
  return (
    <Page title="Onboarding" lead="Machines on their way to becoming nodes.">
      {sites > 0 ? (
        <Empty title="No machine was onboarded yet" action={start}>
          Onboarding takes a bare server that MAAS of a site can reach, and makes it a node: it is commissioned, deployed, and its agent enrolls. Name the machines and the addresses of their BMCs; everything is checked before anything is started.
        </Empty>
      ) : (
        <Empty title="First there must be a site" action={<LinkButton to="/sites" look="primary">To the sites</LinkButton>}>
          A site is a data centre with its MAAS. Once there is one, its machines are onboarded here.
        </Empty>
      )}
    </Page>
  )
}

type Pages = ReturnType<typeof usePages<Onboarding>>

function OnboardingTable({ label, pages, parked, empty }: { label: string; pages: Pages; parked?: boolean; empty?: ReactNode }) {
  const stages = useStages()
  const navigate = useNavigate()
  return <Table label={label} columns={parked ? parkedColumns(stages) : columnsOf(stages)} rows={pages.rows} rowKey={(o) => o.onboarding_id} onOpen={(o) => void navigate({ to: `/onboardings/${o.onboarding_id}` })} more={pages.more} stale={pages.stale} empty={empty} />
}

const machineColumn: Column<Onboarding> = { key: 'hostname', title: 'Machine', width: 'minmax(8rem, 1fr)', cell: (o) => <TextLink to={`/onboardings/${o.onboarding_id}`}>{o.hostname}</TextLink> }
const statusColumn: Column<Onboarding> = { key: 'status', title: 'Status', width: '9.5rem', cell: (o) => <State of="job" is={o.status} /> }

function stageColumns(stages: Stage[]): Column<Onboarding>[] {
  return [
    { key: 'bar', title: 'Stages', width: 'minmax(8rem, 1.2fr)', cell: (o) => <StageBar status={o.status} stage={o.current_stage} stages={stages} /> },
    { key: 'stage', title: 'Stage', width: 'minmax(10rem, 1.4fr)', cell: (o) => <StageName row={o} title={stages.find((s) => s.name === o.current_stage)?.title} /> },
  ]
}

function columnsOf(stages: Stage[]): Column<Onboarding>[] {
  return [
    machineColumn,
    statusColumn,
    ...stageColumns(stages),
    { key: 'took', title: 'Took', width: '7rem', align: 'right', cell: (o) => <Spent row={o} /> },
    { key: 'sku', title: 'SKU', width: 'minmax(9rem, 1fr)', cell: (o) => o.sku_id },
    { key: 'asked', title: 'Asked for', width: '7rem', cell: (o) => <When at={o.requested_at} /> },
  ]
}

function parkedColumns(stages: Stage[]): Column<Onboarding>[] {
  return [
    machineColumn,
    statusColumn,
    ...stageColumns(stages),
    { key: 'since', title: 'Parked', width: '7rem', cell: (o) => <When at={o.parked_at} /> },
    {
      key: 'why',
      title: 'Why, and what to do',
      width: 'minmax(14rem, 2.5fr)',
      cell: (o) => (
        <span title={o.failure?.error_message}>
          {o.recommended_action && <Badge tone="accent">{actionTitle(o.recommended_action)}</Badge>} <span className="text-bad">{o.failure?.error_message}</span>
        </span>
      ),
    },
  ]
}

function BatchTable({ rows, more, siteName }: { rows: OnboardingBatch[]; more?: () => void; siteName: (id: string) => string }) {
  const navigate = useNavigate()
  const columns: Column<OnboardingBatch>[] = [
    { key: 'asked', title: 'Batch', width: 'minmax(8rem, 1fr)', cell: (b) => <TextLink to={`/onboarding-batches/${b.batch_id}`}><When at={b.requested_at} /></TextLink> },
    { key: 'state', title: 'State', width: '7rem', cell: (b) => <Badge tone={batchTone(b.state, b.failed)}>{b.state}</Badge> },
    { key: 'progress', title: 'Progress', width: 'minmax(9rem, 1.5fr)', cell: (b) => <BatchProgress total={b.total} succeeded={b.succeeded} failed={b.failed} /> },
    { key: 'running', title: 'Running', width: '5.5rem', align: 'right', cell: (b) => b.counts.running + b.counts.compensating },
    { key: 'pending', title: 'Pending', width: '5.5rem', align: 'right', cell: (b) => b.counts.pending },
    { key: 'parked', title: 'Parked', width: '5.5rem', align: 'right', cell: (b) => <span className={b.failed > 0 ? 'text-bad' : ''}>{b.failed}</span> },
    { key: 'site', title: 'Site', width: 'minmax(7rem, 1fr)', cell: (b) => siteName(b.site_id) },
    { key: 'sku', title: 'SKU', width: 'minmax(9rem, 1fr)', cell: (b) => b.sku_id },
  ]
  return <Table label="Batches" columns={columns} rows={rows} rowKey={(b) => b.batch_id} onOpen={(b) => void navigate({ to: `/onboarding-batches/${b.batch_id}` })} more={more} height={rows.length > 6 ? '16rem' : undefined} />
}
