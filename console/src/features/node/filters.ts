import { enums } from '../../api/gen/enums'
import type { Schemas } from '../../api/client'
import { statesOf, type State } from '../../api/states'
import type { paths } from '../../api/gen/schema'
import type { Sort } from '../../ui/table'
import { words, type Tone } from '../../ui/tone'
import type { Status } from './scheduling'

type Asked = NonNullable<paths['/api/v1/admin/nodes']['get']['parameters']['query']>
type Counted = NonNullable<paths['/api/v1/admin/fleet']['get']['parameters']['query']>
type Address = Record<string, string | undefined>
export type Summary = Schemas['FleetviewSummary']

type Group = { key: string; title: string; tone: Tone; states: Exclude<Status, 'deleted'>[] }

const order = ['ok', 'bad', 'warn', 'info', 'idle'] as const

/** groupsOf puts states of one tone together, as cards and legends have them. Something is under way that ends by itself where the tone is info. */
export function groupsOf(all: State[]): Group[] {
  return order.flatMap((tone): Group[] => {
    const states = all.filter((s) => s.tone === tone && !s.terminal).map((s) => s.name as Group['states'][number])
    const [first] = states
    if (!first) return []
    if (tone === 'info') return [{ key: 'in_progress', title: 'In progress', tone, states }]
    return [{ key: first, title: states.map((s) => words(s).replace(/^./, (c) => c.toUpperCase())).join(', '), tone, states }]
  })
}

/** The coarse states of nodes. */
export const groups = groupsOf(statesOf('node'))

const states: readonly string[] = enums['list-nodes.status']
const drifts = enums['list-nodes.drift_state']
const agents = enums['list-nodes.agent']
export type Agent = (typeof agents)[number]
const yesNo = enums['list-nodes.held']
const sorts = enums['list-nodes.sort']
const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

/** What cards say of agents; each node has one of them. */
export const agentCards: { agent: Agent; label: string; tone: Tone; hint: string }[] = [
  { agent: 'current', label: 'Agent current', tone: 'ok', hint: 'The agent is up to date.' },
  { agent: 'drift', label: 'Agent drift', tone: 'warn', hint: 'The agent needs another version, configuration or certificate.' },
  { agent: 'unknown_build', label: 'Unknown build', tone: 'warn', hint: 'No agent has enrolled yet, or the control plane cannot tell how the agent was built. Counts as drift.' },
]

/** What cards say of scheduling. A node may be counted by several of them. */
export const capacityCards: { counted: 'schedulable' | 'held' | 'tainted'; label: string; hint: string }[] = [
  { counted: 'schedulable', label: 'Schedulable', hint: 'New work may be placed on it.' },
  { counted: 'held', label: 'Held', hint: 'Kept out of scheduling by an operator or an operation.' },
  { counted: 'tainted', label: 'Tainted', hint: 'Not proven clean since a tenant had access, or found unclean.' },
]

/** filters are the parts of the address that narrow. */
export const filters = ['q', 'status', 'sku', 'region_code', 'site_id', 'drift_state', 'agent', 'schedulable', 'held', 'tainted'] as const

/** agentFilters narrow the table as well, but neither the summary nor a turnover takes them. */
export const agentFilters = ['agent_version', 'agent_channel'] as const
const channels = enums['list-nodes.agent_channel']

/** byAgent says whether the address narrows by what only the table knows. */
export const byAgent = (address: Address) => agentFilters.some((k) => address[k])

/** statusesOf are the states that the address asks for; what is no state is passed over. */
export function statusesOf(address: Address): Status[] {
  return (address.status ?? '').split(',').filter((s): s is Status => states.includes(s))
}

function oneOf<T extends string>(value: string | undefined, known: readonly T[]): T | undefined {
  return known.find((k) => k === value)
}

export function sortOf(address: Address): Sort {
  return { by: oneOf(address.sort, sorts) ?? 'hostname', order: address.order === 'desc' ? 'desc' : 'asc' }
}

/** countedBy are the filters that the summary takes too. */
export function countedBy(address: Address): Counted {
  return {
    q: address.q?.trim() || undefined,
    sku: address.sku || undefined,
    region_code: address.region_code || undefined,
    site_id: address.site_id && uuid.test(address.site_id) ? address.site_id : undefined,
    drift_state: oneOf(address.drift_state, drifts),
    agent: oneOf(address.agent, agents),
    held: oneOf(address.held, yesNo),
    tainted: oneOf(address.tainted, yesNo),
  }
}

/** askedFor is what the address asks of list-nodes. An address may come from anywhere: only what the contract knows is sent. */
export function askedFor(address: Address): Asked {
  const sort = sortOf(address)
  const statuses = statusesOf(address)
  return {
    ...countedBy(address),
    statuses: statuses.length ? statuses : undefined,
    agent_version: address.agent_version || undefined,
    agent_channel: oneOf(address.agent_channel, channels),
    schedulable: oneOf(address.schedulable, yesNo),
    sort: oneOf(sort.by, sorts),
    order: sort.order,
  }
}

/**
 * totalOf is how many nodes a filter finds, computed from the summary: it does not
 * know the state and the schedulability that narrow further. undefined: it cannot say.
 */
export function totalOf(summary: Summary, address: Address): number | undefined {
  const wanted = statusesOf(address)
  if (wanted.includes('deleted') || byAgent(address)) return undefined
  const counts: Partial<Record<Status, number>> = summary.by_status
  const inStates = wanted.length ? wanted.reduce((sum, s) => sum + (counts[s] ?? 0), 0) : summary.total
  // Only active nodes are schedulable.
  const schedulable = wanted.length === 0 || wanted.includes('active') ? summary.schedulable : 0
  if (address.schedulable === 'true') return schedulable
  if (address.schedulable === 'false') return inStates - schedulable
  return inStates
}

/** turnoverOf is the filter as the turnover of many takes it. */
export function turnoverOf(address: Address): Record<string, string> {
  const out: Record<string, string> = { new: '1' }
  for (const k of filters) {
    const value = address[k]
    if (value) out[k] = value
  }
  return out
}

/** countOf is how many nodes of a summary are in one of the states. */
export function countOf(summary: Summary, of: Exclude<Status, 'deleted'>[]): number {
  return of.reduce((sum, s) => sum + summary.by_status[s], 0)
}

/** toggled puts states into the filter, or takes them out when they are all there is. */
export function toggled(address: Address, of: Status[]): string | undefined {
  const now = statusesOf(address)
  const same = now.length === of.length && of.every((s) => now.includes(s))
  return same ? undefined : of.join(',')
}
