import { useSearchState } from '../../app/location'
import { Empty, LinkButton, Loading, Page } from '../../ui/basics'
import { CheckField, SelectField } from '../../ui/form'
import { ProblemNote } from '../../ui/problem'
import { Tabs } from '../../ui/tabs'
import { words } from '../../ui/tone'
import { BreakerBanner } from './BreakerBanner'
import { DriftedNodes } from './DriftedNodes'
import { FindingList } from './FindingList'
import { severities, type SiteOverview } from './findings'
import { useKinds, useStatus } from './reading'
import { Runs } from './Runs'
import { SiteStrip } from './SiteStrip'

/** Drift is where MAAS, the agents and the inventory disagree, and what is done about it. */
export default function Drift() {
  const status = useStatus()
  return (
    <Page title="Drift" lead="Where MAAS, the agents and the inventory disagree: what happened, what gpuaas did about it, and what you need to do.">
      <BreakerBanner />
      {status.error && <ProblemNote error={status.error} onRetry={() => void status.refetch()} />}
      {status.isPending && <Loading what="sites" />}
      {status.data?.sites.length === 0 && (
        <Empty title="There is no site to watch yet" action={<LinkButton to="/sites">Go to sites</LinkButton>}>
          Drift is found by comparing the nodes with their machines in MAAS. Create a site and onboard machines first.
        </Empty>
      )}
      {status.data && status.data.sites.length > 0 && (
        <>
          <SiteStrip sites={status.data.sites} />
          <Views sites={status.data.sites} />
        </>
      )}
    </Page>
  )
}

function Views({ sites }: { sites: SiteOverview[] }) {
  const [search, change] = useSearchState()
  const { site, severity, type } = search
  const repeated = search.repeated === 'true'
  const drifted = sites.reduce((n, s) => n + s.drifted, 0)
  const tab = search.tab ?? 'nodes'
  return (
    <Tabs
      label="Drift"
      shown={tab}
      onShow={(key) => change({ tab: key === 'nodes' ? undefined : key })}
      tabs={[
        {
          key: 'nodes',
          title: `Nodes that drifted (${drifted})`,
          body: () => (
            <div className="flex flex-col gap-4">
              <Filters sites={sites} />
              <DriftedNodes site={site} severity={severity} type={type} repeated={repeated} />
            </div>
          ),
        },
        {
          key: 'findings',
          title: 'Findings',
          body: () => (
            <div className="flex flex-col gap-4">
              <Filters sites={sites} withStatus />
              <FindingList site={site} severity={severity} type={type} status={search.status} repeated={repeated} />
            </div>
          ),
        },
        {
          key: 'runs',
          title: 'Checks',
          body: () => (
            <div className="flex flex-col gap-4">
              <div className="grid grid-cols-2 gap-3 sm:grid-cols-3 lg:grid-cols-5">
                <SiteField sites={sites} />
                <SelectField label="Trigger" value={search.trigger ?? ''} onChange={(trigger) => change({ trigger })} options={[{ value: '', label: 'any' }, 'schedule', 'operator', 'suspicion', 'resolution']} />
              </div>
              <Runs site={site} trigger={search.trigger} />
            </div>
          ),
        },
      ]}
    />
  )
}

function SiteField({ sites }: { sites: SiteOverview[] }) {
  const [search, change] = useSearchState()
  return <SelectField label="Site" value={search.site ?? ''} onChange={(site) => change({ site })} options={[{ value: '', label: 'all' }, ...sites.map((s) => ({ value: s.site_id, label: s.name }))]} />
}

const statuses = [
  { value: '', label: 'still open' },
  { value: 'open', label: 'seen once' },
  { value: 'confirmed', label: 'confirmed' },
  { value: 'acted', label: 'acted' },
  { value: 'closed', label: 'closed' },
]

function Filters({ sites, withStatus }: { sites: SiteOverview[]; withStatus?: boolean }) {
  const [search, change] = useSearchState()
  const kinds = useKinds()
  const { type = '' } = search
  const known = [...kinds].map(([value, label]) => ({ value, label }))
  // A kind that the address names is offered even when nothing of it is there now.
  const options = [{ value: '', label: 'all' }, ...known, ...(type && !kinds.has(type) ? [{ value: type, label: words(type) }] : [])]
  return (
    <div className="grid grid-cols-2 items-end gap-3 sm:grid-cols-3 lg:grid-cols-5">
      <SiteField sites={sites} />
      <SelectField label="Severity" value={search.severity ?? ''} onChange={(severity) => change({ severity })} options={[{ value: '', label: 'all' }, ...severities]} />
      <SelectField label="Kind" value={type} onChange={(t) => change({ type: t })} options={options} />
      {withStatus && <SelectField label="Status" value={search.status ?? ''} onChange={(status) => change({ status })} options={statuses} />}
      <CheckField label="Repeated only" hint="Three times or more within a month" value={search.repeated === 'true'} onChange={(on) => change({ repeated: on ? 'true' : undefined })} />
    </div>
  )
}
