import { useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import type { Schemas } from '../../api/client'
import { useMay } from '../../app/session'
import { Card, Code, Facts, Stat, TextLink } from '../../ui/basics'
import { When } from '../../ui/time'
import type { Tone } from '../../ui/tone'
import { groups } from '../node/filters'
import { CredentialsState, ReconciliationState } from './SiteStates'
import { fleetQuery, reconciliationQuery } from './siteStanding'
import type { Site } from './siteQueries'

type Count = [label: string, value: number, tone: Tone | undefined, status: string]

function counts({ total, by_status: by }: Schemas['FleetviewSiteCount']): Count[] {
  return [
    ['Nodes', total, undefined, ''],
    ...groups.map((g): Count => [g.title, g.states.reduce((sum, s) => sum + by[s], 0), g.tone, g.states.join(',')]),
  ]
}

/** SiteOverview is the facts of a site, and how it stands. */
export function SiteOverview({ site }: { site: Site }) {
  const may = useMay()
  const navigate = useNavigate()
  const fleet = useQuery({ ...fleetQuery, enabled: may('node:read') })
  const reconciliation = useQuery({ ...reconciliationQuery, enabled: may('reconciliation:read') })
  const standing = reconciliation.data?.sites.find((s) => s.site_id === site.site_id)
  const nodes = fleet.data?.sites.find((s) => s.site_id === site.site_id)
  return (
    <div className="flex flex-col gap-4">
      {nodes && (
        <div className="grid grid-cols-2 gap-3 sm:flex sm:flex-wrap">
          {counts(nodes).map(([label, value, tone, status]) => (
            <Stat key={label} label={label} value={value} tone={value ? tone : undefined} onSelect={() => void navigate({ to: '/nodes', search: { site_id: site.site_id, ...(status && { status }) } })} />
          ))}
        </div>
      )}
      <div className="grid items-start gap-4 lg:grid-cols-2">
        <Card title="How it stands">
          <Facts
            of={[
              ['Credentials', <CredentialsState key="c" site={site} />],
              ['Reconciliation', <ReconciliationState key="r" standing={standing} />],
              ['Last look at MAAS', standing && <When key="l" at={standing.last_cycle_at} />],
              ['Last full answer', standing && <When key="i" at={standing.last_informed_at} />],
              ['Drifted nodes', standing && (standing.drifted > 0 ? <TextLink key="d" to="/drift" search={{ site: site.site_id }}>{standing.drifted}</TextLink> : '0')],
              ...(standing?.remedy ? [['What to do', <Code key="w">{standing.remedy}</Code>] as [string, ReactNode]] : []),
            ]}
          />
        </Card>
        <Card title="Facts">
          <Facts
            of={[
              ['Region', site.region_code],
              ['Address of MAAS', <Code key="u">{site.api_base_url}</Code>],
              ['Allowed networks', site.allowed_networks.join(', ') || 'any but link-local and loopback'],
              ['BMC networks', site.bmc_networks.join(', ') || 'any but link-local and loopback'],
              ['CA certificate', site.ca_certificate ? 'its own' : 'the CAs of the control plane’s machine'],
              ['PXE interface of MAAS', site.pxe_iface],
              ['PXE VLAN', site.pxe_vlan_vid === 0 ? 'untagged' : String(site.pxe_vlan_vid)],
              ['PXE interface of nodes', site.node_pxe_iface],
              ['Deploy user', site.deploy_user],
              ['Deploy interface', site.deploy_ssh_iface],
              ['DNS servers', site.upstream_dns_servers.join(', ')],
              ['Required scripts', site.required_scripts.join(', ') || 'none'],
              ['Required capabilities', site.required_capabilities.join(', ') || 'none'],
              ['Hardware sync over plain HTTP', site.api_base_url.startsWith('https://') ? `${site.hw_sync_http}, without meaning: MAAS speaks https` : site.hw_sync_http],
              ['Machines in work at once', String(site.max_parallel)],
              ['Created', <When key="cr" at={site.created_at} />],
              ['Changed', <When key="ch" at={site.updated_at} />],
              ['Id', <Code key="id">{site.site_id}</Code>],
            ]}
          />
        </Card>
      </div>
    </div>
  )
}
