import { enums } from '../../api/gen/enums'
import { statesOf } from '../../api/states'
import type { Schemas } from '../../api/client'
import { given, readLabels } from '../../ui/labels'

export type Maintenance = Schemas['MaintenanceView']
export type Kind = Maintenance['kind']
export type Status = Maintenance['status']
export type Selector = Schemas['MaintenanceSelectorBody']

/** statuses are those that maintenance can be in, as a filter offers them. */
export const statuses = enums['list-maintenances.status']

const table = statesOf('maintenance')

/** open is the states of what is not over. */
export const open = statuses.filter((s) => !table.some((t) => t.name === s && t.terminal))

const may = (status: Status, event: string) => table.some((t) => t.name === status && t.events.includes(event))

/** mayBegin says whether an operator can say that the work begins. What ends the allocation begins by itself. */
export const mayBegin = (m: Pick<Maintenance, 'status' | 'kind'>) => m.kind !== 'release' && may(m.status, 'begin')

/** mayFinish says whether an operator can say that the work is done. */
export const mayFinish = (m: Pick<Maintenance, 'status'>) => may(m.status, 'finish')

/** mayCancel says whether it can be taken back. */
export const mayCancel = (m: Pick<Maintenance, 'status'>) => may(m.status, 'cancel')

/** answered says what the tenant said to it. */
export function answered(m: Pick<Maintenance, 'consent_asked' | 'answered_at' | 'answered_by_name' | 'answered_by' | 'answer' | 'begins_now' | 'status'>): string {
  if (!m.answered_at) return m.consent_asked ? (may(m.status, 'consent') ? 'asked, not answered yet' : 'asked, not answered') : 'told, not asked'
  const who = m.answered_by_name ?? m.answered_by ?? 'The tenant'
  // Who began it, or saw it lapse, had agreed before; only what was declined and stays so was not.
  const did = m.status === 'declined' ? 'declined' : m.begins_now ? 'agreed to begin at once' : 'answered'
  const said = m.status === 'consented' && !m.begins_now ? 'agreed' : did
  return `${who} ${said}${m.answer ? `: ${m.answer}` : ''}`
}

/** kindWords says what maintenance does to whoever rents the node. */
export const kindWords: Record<Kind, string> = { release: 'the allocation ends', reboot: 'the node restarts', pause: 'the node is away' }

/** selectorOf reads which rented nodes are meant; without anything it means none. */
export function selectorOf(d: { region: string; rack: string; pool: string; sku: string; labels: string }): { selector?: Selector; wrong?: string } {
  const { labels, wrong } = readLabels(d.labels)
  const said = [d.region, d.rack, d.pool, d.sku, ...Object.keys(labels)].some((text) => text.trim() !== '')
  const selector: Selector = { region: d.region.trim() || undefined, rack: d.rack.trim() || undefined, pool: d.pool.trim() || undefined, sku: d.sku || undefined, labels: given(labels) }
  return { selector: said ? selector : undefined, wrong }
}
