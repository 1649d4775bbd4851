import type { Schemas } from '../../api/client'
import { Badge, TextLink } from '../../ui/basics'
import type { Tone } from '../../ui/tone'
import type { Site } from './siteQueries'

const states: Record<Schemas['ReconciliationSiteOverview']['state'], [tone: Tone, word: string, means: string]> = {
  ok: ['ok', 'up to date', 'MAAS is looked at regularly, and what it says is heard.'],
  stale: ['warn', 'stale', 'MAAS has not told all that was asked for long.'],
  paused: ['idle', 'paused', 'Reconciliation does not look at this site.'],
  breaker_open: ['bad', 'breaker open', 'So much went wrong at once that nothing is quarantined until somebody decides.'],
  no_information: ['bad', 'MAAS not heard', 'The last look at MAAS learned nothing.'],
  never: ['idle', 'not checked yet', 'There was no look at MAAS yet.'],
}

/** ReconciliationState says whether what is known of a site is fresh. */
export function ReconciliationState({ standing }: { standing?: Schemas['ReconciliationSiteOverview'] }) {
  if (!standing) return <span className="text-muted">–</span>
  const [tone, word, means] = states[standing.state]
  return (
    <Badge tone={tone} title={standing.last_error?.message ?? means}>
      {word}
    </Badge>
  )
}

/** CredentialsState says which secrets of a site are written. */
export function CredentialsState({ site }: { site: Site }) {
  const kinds: [string, boolean][] = [
    ['token', site.api_token.has_credentials],
    ['BMC', site.power.has_credentials],
  ]
  const missing = kinds.filter(([, there]) => !there).map(([name]) => name)
  if (missing.length === 0) return <Badge tone="ok">complete</Badge>
  return <Badge tone={site.api_token.has_credentials ? 'warn' : 'bad'}>{`missing: ${missing.join(', ')}`}</Badge>
}

/** NodesOf counts the nodes of a site, and leads to them. */
export function NodesOf({ nodes, siteId }: { nodes?: Schemas['FleetviewSiteCount']; siteId: string }) {
  if (!nodes) return <span className="text-muted">–</span>
  if (nodes.total === 0) return <span className="text-muted">none yet</span>
  const text = nodes.by_status.active === nodes.total ? `${nodes.total}, all active` : `${nodes.total}, ${nodes.by_status.active} active`
  return (
    <TextLink to="/nodes" search={{ site_id: siteId }}>
      {text}
    </TextLink>
  )
}
