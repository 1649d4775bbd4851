import type { ReactNode } from 'react'
import { api, got } from '../../api/client'
import { usePages } from '../../api/pages'
import { useSearchState } from '../../app/location'
import { useMay } from '../../app/session'
import { Empty, LinkButton, Loading, Page } from '../../ui/basics'
import { batchColumns, jobColumns, JobFilters, JobLists } from '../job/JobLists'
import { useSiteName, useSites } from '../job/lookups'
import { onboarding, useStages, type Onboarding } from './onboarding'

const batch = batchColumns(onboarding)

/** Onboardings is all work that turns machines into nodes: what waits for somebody first. */
export default function Onboardings() {
  const [search, setSearch] = useSearchState()
  const may = useMay()
  const { sites } = useSites()
  const siteName = useSiteName()
  const stages = useStages()
  const filtered = !!(search.status || search.site || search.hostname)
  const all = useOnboardings('list', search)
  const parked = useOnboardings('parked', { ...search, status: 'failed' }, !search.status)
  const batches = usePages(['onboarding-batches', 'list'], (cursor) => got(api.GET('/api/v1/admin/onboarding-batches', { params: { query: { cursor } } })))
  const column = jobColumns<Onboarding>(onboarding, () => stages)
  const standing = [column.name, column.status, column.bar, column.stage]
  const start = may('onboarding:manage') && (
    <LinkButton to="/onboardings/new" look="primary">
      Onboard machines
    </LinkButton>
  )
  if (all.loading) return <Page title="Onboarding"><Loading what="onboardings" /></Page>
  if (!filtered && all.rows.length === 0 && !all.error) return <NothingYet start={start} sites={sites.length} />
  return (
    <Page title="Onboarding" lead="Machines that are being turned into nodes." actions={start}>
      <JobLists
        kind={onboarding}
        all={all}
        parked={parked}
        batches={batches}
        filtered={filtered}
        columns={[...standing, column.took, { key: 'sku', title: 'SKU', width: 'minmax(9rem, 1fr)', cell: (o) => o.sku_id }, column.asked]}
        parkedColumns={[...standing, column.since, column.why]}
        batchColumns={[
          batch.asked,
          batch.state,
          batch.progress,
          { key: 'running', title: 'Running', width: '5.5rem', align: 'right', cell: (b) => b.counts.running + b.counts.compensating },
          { key: 'pending', title: 'Pending', width: '5.5rem', align: 'right', cell: (b) => b.counts.pending },
          batch.parked,
          { key: 'site', title: 'Site', width: 'minmax(7rem, 1fr)', cell: (b) => siteName(b.site_id) },
          { key: 'sku', title: 'SKU', width: 'minmax(9rem, 1fr)', cell: (b) => b.sku_id },
        ]}
        otherwise="Choose another status or site, or type less of the name."
      >
        <JobFilters kind={onboarding} search={search} setSearch={setSearch} />
      </JobLists>
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
    <Page title="Onboarding" lead="Machines that are being turned into nodes.">
      {sites > 0 ? (
        <Empty title="No onboardings yet" action={start}>
          Onboarding turns a bare server that a site’s MAAS can reach into a node: it is commissioned and deployed, and its agent enrolls. Enter the machines and their BMC addresses; everything is checked before anything starts.
        </Empty>
      ) : (
        <Empty title="Create a site first" action={<LinkButton to="/sites" look="primary">Go to sites</LinkButton>}>
          A site is a data centre with its MAAS. Once you have one, onboard its machines here.
        </Empty>
      )}
    </Page>
  )
}
