import { useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import type { Schemas } from '../../api/client'
import { usePages } from '../../api/pages'
import { useSearchState } from '../../app/location'
import { useMay } from '../../app/session'
import { Badge, Empty, LinkButton, Loading, Page } from '../../ui/basics'
import { SelectField } from '../../ui/form'
import { ProblemNote } from '../../ui/problem'
import { Table, type Column } from '../../ui/table'
import { When } from '../../ui/time'
import { DemoSite, DemoSiteButton, DemoSiteOffer, useLab } from '../lab/DemoSite'
import { sitesPage, type Site } from './siteQueries'
import { fleetQuery, reconciliationQuery } from './siteStanding'
import { CredentialsState, NodesOf, ReconciliationState } from './SiteStates'

/** Sites are the MAAS installations that machines come from. */
export default function Sites() {
  const may = useMay()
  const navigate = useNavigate()
  const [search, change] = useSearchState()
  const status = search.status === 'active' || search.status === 'disabled' ? search.status : undefined
  const sites = usePages(['sites', 'list', status], (cursor) => sitesPage(cursor, status))
  const fleet = useQuery({ ...fleetQuery, enabled: may('node:read') })
  const reconciliation = useQuery({ ...reconciliationQuery, enabled: may('reconciliation:read') })
  const manage = may('site:manage')
  const none = !sites.loading && !sites.error && sites.rows.length === 0 && !status
  return (
    <Page
      title="Sites"
      lead="A site is one MAAS and the machines that it looks after."
      actions={
        manage &&
        !none && (
          <LinkButton to="/sites/new" look="primary">
            New site
          </LinkButton>
        )
      }
    >
      {!none && manage && <DemoSiteOffer />}
      {search.demo && manage && <DemoSite onClose={() => change({ demo: undefined })} />}
      {!none && !(sites.error && sites.rows.length === 0) && (
        <div className="w-40">
          <SelectField label="Status" value={status ?? ''} onChange={(v) => change({ status: v })} options={[{ value: '', label: 'any' }, 'active', 'disabled']} />
        </div>
      )}
      {sites.error && <ProblemNote error={sites.error} onRetry={sites.retry} />}
      {reconciliation.error && <ProblemNote error={reconciliation.error} onRetry={() => void reconciliation.refetch()} />}
      {sites.loading && <Loading what="sites" />}
      {none && <NoSites manage={manage} />}
      {!sites.loading && !(sites.error && sites.rows.length === 0) && !none && (
        <Table
          label="Sites"
          columns={columnsFor(reconciliation.data, fleet.data)}
          rows={sites.rows}
          rowKey={(s) => s.site_id}
          onOpen={(s) => void navigate({ to: '/sites/$siteId', params: { siteId: s.site_id } })}
          more={sites.more}
          stale={sites.stale}
          empty={<Empty title={`No site is ${status ?? 'there'}`} />}
        />
      )}
    </Page>
  )
}

function NoSites({ manage }: { manage: boolean }) {
  const { lab } = useLab()
  return (
    <Empty
      title="There is no site yet"
      action={
        manage && (
          <>
            <DemoSiteButton />
            <LinkButton to="/sites/new">Create a site</LinkButton>
          </>
        )
      }
    >
      <p>Machines come from a site: tell the control plane where its MAAS is, write the credentials, see it checked, and onboard machines.</p>
      {lab && <p className="mt-2">A virtual data centre runs beside this control plane: the demo site stands for it, and lets you try everything without hardware.</p>}
    </Empty>
  )
}

function columnsFor(reconciliation?: Schemas['ReconciliationOverview'], fleet?: Schemas['FleetviewSummary']): Column<Site>[] {
  const standing = (s: Site) => reconciliation?.sites.find((r) => r.site_id === s.site_id)
  return [
    { key: 'name', title: 'Site', width: 'minmax(8rem, 1fr)', cell: (s) => <span className="font-medium">{s.name}</span> },
    { key: 'status', title: 'Status', width: '6rem', cell: (s) => <Badge tone={s.status === 'active' ? 'ok' : 'warn'}>{s.status}</Badge> },
    { key: 'region', title: 'Region', width: 'minmax(5rem, 0.6fr)', cell: (s) => s.region_code },
    { key: 'credentials', title: 'Credentials', width: 'minmax(11rem, 1.2fr)', cell: (s) => <CredentialsState site={s} /> },
    { key: 'nodes', title: 'Nodes', width: '9rem', cell: (s) => <NodesOf nodes={fleet?.sites.find((f) => f.site_id === s.site_id)} siteId={s.site_id} /> },
    { key: 'reconciliation', title: 'Reconciliation', width: '9.5rem', cell: (s) => <ReconciliationState standing={standing(s)} /> },
    { key: 'informed', title: 'MAAS last heard', width: '8.5rem', cell: (s) => (reconciliation ? <When at={standing(s)?.last_informed_at} /> : '–') },
    { key: 'maas', title: 'MAAS', width: 'minmax(12rem, 1.5fr)', cell: (s) => <span className="font-mono text-xs">{s.api_base_url}</span> },
  ]
}
