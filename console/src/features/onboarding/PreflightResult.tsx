import type { Schemas } from '../../api/client'
import { Badge, Card, Note } from '../../ui/basics'
import { words } from '../../ui/tone'
import { findings } from './preflight'

type Check = Schemas['OnboardingCheck']

/** PreflightResult shows everything that was looked at before anything is started. */
export function PreflightResult({ checks, hostnames, outdated }: { checks: Check[]; hostnames: ReadonlySet<string>; outdated: boolean }) {
  const bad = checks.filter((c) => !c.ok)
  return (
    <Card title="Preflight" actions={outdated ? <Badge tone="warn">out of date: the form has changed</Badge> : <Badge tone={bad.length > 0 ? 'bad' : 'ok'}>{bad.length > 0 ? `${bad.length} of ${checks.length} blocked` : `all ${checks.length} ok`}</Badge>}>
      <div className="flex flex-col gap-3">
        {bad.length > 0 && !outdated && <Note tone="bad" title="Fix these first">Nothing was started or changed. Each line below says what to do.</Note>}
        <ul className="flex flex-col divide-y divide-line">
          {[...bad, ...checks.filter((c) => c.ok)].map((c) => (
            <Line key={c.name} check={c} hostnames={hostnames} />
          ))}
        </ul>
      </div>
    </Card>
  )
}

const plain: Record<string, string> = {
  site_active: 'Site',
  reachable: 'MAAS answers',
  version: 'MAAS version',
  token_valid: 'MAAS token',
  token_admin: 'MAAS administrator',
  pxe_network: 'PXE network and DHCP',
  capabilities: 'Required capabilities',
  scripts: 'Required scripts',
  bundle: 'Bundle of the site',
  hw_sync_interval: 'Hardware sync',
  dns_servers: 'DNS servers',
  clock_skew: 'Clock',
  hw_sync_source: 'Hardware sync program',
  profile: 'Profile',
  sku: 'SKU',
  deploy_password: 'Deploy password',
  machines: 'Machines',
  power_credentials: 'BMC credentials',
  roce_rows: 'RoCE addresses',
  not_in_use: 'Not in use elsewhere',
  machines_in_maas: 'Machines in MAAS',
  capacity: 'Free slots',
}

function Line({ check, hostnames }: { check: Check; hostnames: ReadonlySet<string> }) {
  const notChecked = check.code === 'not_checked'
  const title = plain[check.name] ?? words(check.name)
  return (
    <li className="grid gap-x-4 gap-y-1 py-2 text-sm first:pt-0 last:pb-0 sm:grid-cols-[12rem_minmax(0,1fr)]">
      <div className="flex items-start gap-2">
        <Badge tone={check.ok ? 'ok' : notChecked ? 'idle' : 'bad'}>{check.ok ? 'ok' : notChecked ? 'not checked' : 'blocked'}</Badge>
        <span className="font-medium first-letter:uppercase">{title}</span>
      </div>
      <div className="min-w-0 break-words">
        {findings(check, hostnames).map((f, i) => (
          <p key={i} className={check.ok ? 'text-muted' : ''}>
            {f.hostname && !f.text.includes(f.hostname) && <span className="font-medium">{f.hostname}: </span>}
            {f.text}
          </p>
        ))}
        {check.remedy && <p className="font-medium">→ {check.remedy}</p>}
        {check.code && <p className="text-xs text-muted">{check.code}</p>}
      </div>
    </li>
  )
}
