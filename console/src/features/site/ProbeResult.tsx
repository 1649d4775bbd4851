import { useQuery } from '@tanstack/react-query'
import { useMay } from '../../app/session'
import type { Schemas } from '../../api/client'
import { Badge, Button, Card, Note, Spinner } from '../../ui/basics'
import { ProblemNote } from '../../ui/problem'
import { When } from '../../ui/time'
import { probeQuery } from './siteQueries'

type Check = Schemas['SiteCheck']

const titles: Record<Check['name'], string> = {
  reachable: 'MAAS answers',
  version: 'Version of MAAS',
  token_valid: 'Token is valid',
  token_admin: 'Token is an administrator’s',
  rack_controllers: 'Rack controllers',
  images: 'Images of the profiles',
  pxe_network: 'PXE network and DHCP',
  capabilities: 'Required capabilities',
  scripts: 'Required scripts',
  bundle: 'Bundles of the profiles',
  hw_sync_interval: 'Hardware sync interval',
  dns_servers: 'DNS servers',
  clock_skew: 'Clocks agree',
  hw_sync_source: 'Hardware sync program',
  deploy_password: 'Deploy password',
}

/** ProbeCard shows whether a site is ready for work, and looks again when asked to. */
export function ProbeCard({ siteId }: { siteId: string }) {
  const may = useMay()
  const probe = useQuery(probeQuery(siteId))
  const manage = may('site:manage')
  const again = manage && (
    <Button busy={probe.isFetching} onClick={() => void probe.refetch()}>
      {probe.data ? 'Check again' : 'Check now'}
    </Button>
  )
  return (
    <Card title="Is it ready for work?" actions={again}>
      <div className="flex flex-col gap-3">
        {probe.error && <ProblemNote error={probe.error} />}
        {probe.isFetching && !probe.data && (
          <p role="status" className="flex items-center gap-2 text-sm text-muted">
            <Spinner /> MAAS is being asked. This takes up to half a minute when it does not answer.
          </p>
        )}
        {!probe.data && !probe.isFetching && !probe.error && (
          <p className="text-sm text-muted">{manage ? 'A check asks MAAS for everything that onboarding needs: access, version, rack controllers, images, hardware sync, DNS and clock. It changes nothing.' : 'Nobody has checked from this page. Checks are run by those who manage sites.'}</p>
        )}
        {probe.data && (
          <>
            <p className="text-xs text-muted">
              As of <When at={new Date(probe.dataUpdatedAt).toISOString()} />
              {probe.isFetching && ', being checked again'}
            </p>
            <ProbeResult probe={probe.data} />
          </>
        )}
      </div>
    </Card>
  )
}

/** ProbeResult is each thing that was looked at, with what to do about what is wrong. */
export function ProbeResult({ probe }: { probe: Schemas['SiteProbeView'] }) {
  const skipped = probe.checks.filter((c) => c.code === 'not_checked').length
  const bad = probe.checks.filter((c) => !c.ok).length - skipped
  return (
    <>
      {probe.ok ? (
        <Note tone="ok" title="Everything that work needs is there">
          Machines of this site can be onboarded.
        </Note>
      ) : (
        <Note tone="bad" title={`${bad} of ${probe.checks.length} checks ${bad === 1 ? 'needs' : 'need'} you`}>
          Work at this site will fail until {bad === 1 ? 'it is' : 'they are'} corrected.
          {skipped > 0 && ` ${skipped} more could not be looked at before.`}
        </Note>
      )}
      <ul className="divide-y divide-line rounded-md border border-line">
        {probe.checks.map((c) => (
          <CheckLine key={c.name} check={c} />
        ))}
      </ul>
    </>
  )
}

function CheckLine({ check }: { check: Check }) {
  const skipped = check.code === 'not_checked'
  return (
    <li className="grid gap-x-4 gap-y-0.5 px-3 py-2 text-sm sm:grid-cols-[5.5rem_11.5rem_minmax(0,1fr)]">
      <span>
        <Badge tone={check.ok ? 'ok' : skipped ? 'idle' : 'bad'}>{check.ok ? 'passed' : skipped ? 'not checked' : 'failed'}</Badge>
      </span>
      <span className="font-medium">{titles[check.name]}</span>
      <span className={`min-w-0 break-words ${skipped ? 'text-muted' : ''}`}>
        {check.detail}
        {check.remedy && !skipped && <span className="block text-muted">What to do: {check.remedy}</span>}
      </span>
    </li>
  )
}
