import { enums } from '../../api/gen/enums'
import type { Schemas } from '../../api/client'

export type Selector = Schemas['DecommissionSelectorBody']
type NodeStatus = NonNullable<Selector['statuses']>[number]

export const nodeStatuses: readonly NodeStatus[] = enums['DecommissionSelectorBody.statuses']

/** mostNamed is how many nodes may be named one by one, by the contract. */
export const mostNamed = 1000

/** What the form has: text, as it is typed. */
export type Chosen = { site: string; region: string; sku: string; prefix: string; statuses: string[]; nodes: string[] }

/** chosenFrom reads what another page asks to turn over: the filters of the list of nodes. */
export function chosenFrom(search: Record<string, string | undefined>): Chosen {
  const list = (text: string | undefined) => (text ?? '').split(',').map((t) => t.trim()).filter((t) => t !== '')
  return {
    site: search.site_id ?? search.site ?? '',
    region: search.region_code ?? search.region ?? '',
    sku: search.sku_id ?? search.sku ?? '',
    prefix: search.hostname_prefix ?? '',
    statuses: list(search.statuses ?? search.status).filter((s) => (nodeStatuses as readonly string[]).includes(s)),
    nodes: list(search.node_ids),
  }
}

/**
 * beyondSelector says whether the list of nodes was narrowed by something that a selector
 * cannot say. Then the nodes themselves are named: nobody gets more of them than they saw.
 */
export function beyondSelector(search: Record<string, string | undefined>): boolean {
  return [search.q, search.drift_state, search.schedulable, search.agent, search.held, search.tainted].some(Boolean)
}

/** selectorOf is what is sent, or undefined while nothing is chosen: nobody turns the whole fleet over by accident. */
export function selectorOf(c: Chosen): Selector | undefined {
  const selector: Selector = {}
  if (c.nodes.length > 0) selector.node_ids = c.nodes
  if (c.site) selector.site_id = c.site
  if (c.region) selector.region_code = c.region
  if (c.sku) selector.sku_id = c.sku
  if (c.prefix.trim()) selector.hostname_prefix = c.prefix.trim().toLowerCase()
  if (c.statuses.length > 0) selector.statuses = c.statuses as NodeStatus[]
  return Object.keys(selector).length > 0 ? selector : undefined
}

/** asWords says which nodes a selector means. */
export function asWords(s: Selector, siteName: (id: string) => string): string {
  const parts: string[] = []
  if (s.node_ids) parts.push(`${s.node_ids.length} named ${s.node_ids.length === 1 ? 'node' : 'nodes'}`)
  if (s.hostname_prefix) parts.push(`name starts with ${s.hostname_prefix}`)
  if (s.site_id) parts.push(`site ${siteName(s.site_id)}`)
  if (s.region_code) parts.push(`region ${s.region_code}`)
  if (s.sku_id) parts.push(`SKU ${s.sku_id}`)
  if (s.statuses && s.statuses.length > 0) parts.push(`state ${s.statuses.map((t) => t.replaceAll('_', ' ')).join(' or ')}`)
  return parts.length > 0 ? parts.join(', ') : 'all nodes'
}
