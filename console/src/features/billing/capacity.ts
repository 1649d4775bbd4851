import type { Schemas } from '../../api/client'
import { plus, type Part, type Sums } from './usage'

type States = Schemas['FleetviewStatusCounts']
type Sku = Pick<Schemas['SkuView'], 'sku_id' | 'gpus_total' | 'price_minor' | 'price_currency'>

/** Counted is the nodes of a SKU by state: all, those that are not proven clean, and those that are clean and kept out of scheduling. */
export type Counted = { all: States; dirty: States; held: States }

/** The sorts of capacity: each node is of one. */
export const sorts = ['rented', 'idle', 'dirty', 'held', 'quarantined', 'offline', 'moving'] as const
export type Sort = (typeof sorts)[number]

export const sortWords: Record<Sort, { title: string; hint: string }> = {
  rented: { title: 'Rented', hint: 'A tenant rents it, paid or free of charge.' },
  idle: { title: 'Idle', hint: 'Clean and ready to rent.' },
  dirty: { title: 'Dirty', hint: 'Being cleaned, prepared, or not proven clean since a tenant had it.' },
  held: { title: 'Held', hint: 'An operator or a job keeps it from being rented.' },
  quarantined: { title: 'Quarantined', hint: 'Something is wrong with it.' },
  offline: { title: 'Offline', hint: 'Its agent is silent.' },
  moving: { title: 'Coming or going', hint: 'It joins the fleet, or is being emptied.' },
}

/** Kind is the machines of one SKU by what becomes of them, in units: GPUs, or machines without. */
export type Kind = { sku: string; there: number; units: Record<Sort, number>; price: number; currency: string }

/** kindOf sorts the nodes of a SKU. Retired nodes and those that are removed are not there to be rented. */
export function kindOf(sku: Sku, counted: Counted, rentedUnits: number): Kind {
  const each = Math.max(sku.gpus_total, 1)
  const { all, dirty, held } = counted
  const there = all.active + all.quarantined + all.offline + all.draining + all.enrolling + all.bootstrap_issued
  const rented = Math.min(there, Math.round(rentedUnits / each))
  // Who rents a node makes it dirty, so those are found among the dirty ones, unless they are ill as well.
  const ill = Math.max(0, rented - dirty.active)
  const offline = Math.max(0, all.offline - ill)
  const nodes: Record<Sort, number> = {
    rented,
    dirty: Math.max(0, dirty.active - rented),
    held: held.active,
    idle: Math.max(0, all.active - dirty.active - held.active),
    offline,
    quarantined: Math.max(0, all.quarantined - Math.max(0, ill - all.offline)),
    moving: all.draining + all.enrolling + all.bootstrap_issued,
  }
  return { sku: sku.sku_id, there: there * each, units: Object.fromEntries(sorts.map((s) => [s, nodes[s] * each])) as Kind['units'], price: sku.price_minor, currency: sku.price_currency }
}

/** anHour is what the units of a sort would earn in an hour at list prices. */
export const anHour = (kinds: Kind[], sort: Sort): Sums => kinds.reduce<Sums>((sum, k) => plus(sum, { [k.currency]: k.units[sort] * k.price }), {})

/** utilisation is how much of the time of the machines that are there now was rented, from 0 to 1; undefined: there are none. */
export const utilisation = (used: Part | undefined, there: number, seconds: number): number | undefined => (there > 0 && seconds > 0 ? Math.min(1, (used?.unitSeconds ?? 0) / (there * seconds)) : undefined)

/** percent writes a share. */
export const percent = (share: number | undefined) => (share === undefined ? '–' : `${(share * 100).toFixed(1)} %`)
