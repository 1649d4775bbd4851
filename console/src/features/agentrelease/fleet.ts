import type { Schemas } from '../../api/client'
import type { Tone } from '../../ui/tone'

export type Group = Schemas['FleetviewAgentGroup']
export type Badge = Group['badge']

/** badges is how agents are shown, in the order in which a bar has them. */
export const badges: Record<Badge, { label: string; tone: Tone; search: Record<string, string> }> = {
  current: { label: 'Current', tone: 'ok', search: { drift_state: 'in_sync' } },
  outdated: { label: 'Outdated', tone: 'warn', search: { drift_state: 'version_drift' } },
  config_drift: { label: 'Config drift', tone: 'info', search: { drift_state: 'config_drift' } },
  cert_repair: { label: 'Cert repair', tone: 'bad', search: { drift_state: 'certificate_only_repair_needed' } },
  unknown_build: { label: 'Unknown build', tone: 'idle', search: { agent: 'unknown_build' } },
}
const order = Object.keys(badges)

export type Part = { group: Group; label: string; tone: Tone; percent: number; search: Record<string, string> }
export type Bar = { version: string; label: string; nodes: number; parts: Part[] }

/** barsOf is a bar for each version, with a part for each channel and drift. All bars share one scale: the longest is whole. */
export function barsOf(groups: Group[]): Bar[] {
  const byVersion = new Map<string, Group[]>()
  for (const g of groups) byVersion.set(g.version, [...(byVersion.get(g.version) ?? []), g])
  const sum = (of: Group[]) => of.reduce((n, g) => n + g.nodes, 0)
  const longest = Math.max(1, ...[...byVersion.values()].map(sum))
  return [...byVersion].map(([version, of]) => ({
    version,
    label: version || 'no agent yet',
    nodes: sum(of),
    parts: of
      .toSorted((a, b) => order.indexOf(a.badge) - order.indexOf(b.badge) || a.channel.localeCompare(b.channel))
      .map((group) => ({ group, label: labelOf(group), tone: badges[group.badge].tone, percent: (100 * group.nodes) / longest, search: searchOf(group) })),
  }))
}

function labelOf(g: Group): string {
  return `${g.version || 'no agent yet'}, ${g.channel}, ${badges[g.badge].label.toLowerCase()}: ${g.nodes === 1 ? '1 node' : `${g.nodes} nodes`}`
}

/** searchOf is the list of the nodes that a part counts. */
function searchOf(g: Group): Record<string, string> {
  const version: Record<string, string> = g.version ? { agent_version: g.version } : {}
  return { ...version, agent_channel: g.channel, ...badges[g.badge].search }
}
