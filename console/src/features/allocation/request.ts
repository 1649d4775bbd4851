import type { Schemas } from '../../api/client'
import { given, readLabels } from '../../ui/labels'
import { readLife } from '../../ui/life'
import { minorOf, money } from '../../ui/money'

export type Wish = Schemas['AllocationAskBody']
export type Arrangement = NonNullable<Wish['arrangement']>

/** Draft is what the form of a request has. */
export type Draft = {
  count: string
  name: string
  life: 'settled' | 'set' | 'never'
  lasts: string
  waits: string
  /** What a node may cost for an hour; empty: whatever it costs. */
  most: string
  root: boolean
  guarded: boolean
  arrangement: Arrangement
  region: string
  nodeLabels: string
  labels: string
  /** The keys that shall open it; undefined: one's own, and those of the project. */
  keys?: string[]
}

/** blank is a form in which nobody has chosen anything. */
export const blank: Draft = { count: '1', name: '', life: 'settled', lasts: '24h', waits: '', most: '', root: false, guarded: false, arrangement: 'spread', region: '', nodeLabels: '', labels: '' }

export const arrangementWords: Record<Arrangement, string> = {
  spread: 'spread over racks, so that one rack failure does not hit all',
  pack: 'packed: close to the project’s other nodes',
  same_rack: 'all in one rack',
}

const week = 604_800

type Wrong = Partial<Record<'count' | 'lasts' | 'waits' | 'most' | 'nodeLabels' | 'labels' | 'keys', string>>

/** Kind is the SKU of a request, and the currency that its tenant pays in. */
export interface Kind {
  sku_id: string
  currency: string
}

/** wishOf reads the form as what is sent, or says what is wrong with it. Scarce: there are not enough nodes now, so it can wait. */
export function wishOf(sku: Kind, d: Draft, scarce: boolean): { body: Wish; wrong: Wrong; ready: boolean } {
  const count = Number(d.count)
  const life = d.life === 'set' ? readLife(d.lasts) : {}
  const patience = scarce ? readLife(d.waits, { most: week }) : {}
  const most: { minor?: number; wrong?: string } = d.most.trim() === '' ? {} : minorOf(d.most, sku.currency)
  const of = readLabels(d.nodeLabels)
  const own = readLabels(d.labels)
  const wrong: Wrong = {
    count: Number.isInteger(count) && count >= 1 && count <= 64 ? undefined : 'From 1 to 64.',
    lasts: life.wrong ?? (d.life === 'set' && life.seconds === undefined ? 'Say how long.' : undefined),
    waits: patience.wrong,
    most: most.wrong,
    nodeLabels: of.wrong,
    labels: own.wrong,
    keys: d.keys?.length === 0 ? 'Choose at least one key.' : undefined,
  }
  const body: Wish = {
    sku: sku.sku_id,
    count: wrong.count ? 1 : count,
    name: d.name.trim() || undefined,
    access: d.root ? 'root' : undefined,
    protected: d.guarded || undefined,
    arrangement: d.arrangement === 'spread' ? undefined : d.arrangement,
    region: d.region.trim() || undefined,
    node_labels: given(of.labels),
    labels: given(own.labels),
    ssh_key_ids: d.keys,
    expires_in_seconds: d.life === 'never' ? 0 : life.seconds,
    wait_up_to_seconds: patience.seconds,
    hour_most: most.minor === undefined ? undefined : { amount_minor: most.minor, currency: sku.currency },
  }
  return { body, wrong, ready: !Object.values(wrong).some(Boolean) }
}

/** explained is what of a request decides which nodes it could have, and what it costs. */
export const explained = ({ sku, count, access, region, node_labels, expires_in_seconds }: Wish): Wish => ({ sku, count, access, region, node_labels, expires_in_seconds })

const fromUntil = 'an hour, from the moment it is yours until you give it back'

/** priceWords says what a request costs: by the list until that is known for whoever asks; cost: less discounts; null: nothing is charged. */
export function priceWords(cost: Schemas['AllocationCost'] | null | undefined, listed: string): { before?: string; amount: string; after: string } {
  if (cost === null) return { before: 'Nothing is charged for it. By the list it would be', amount: listed, after: `${fromUntil}.` }
  if (!cost) return { before: 'By the list', amount: listed, after: `${fromUntil}.` }
  const whole = cost.until_expiry_minor === undefined ? '' : `: ${money(cost.until_expiry_minor, cost.currency)} until it ends by itself`
  return { amount: money(cost.hour_minor, cost.currency), after: `${fromUntil}${whole}.` }
}

/** noRoot says why root access cannot be asked for. */
export function noRoot(sku: Pick<Schemas['SkuView'], 'user_access_only'>, settled: Pick<Schemas['RentalsettingsRulesView'], 'root_access' | 'root_access_from'> | undefined): string | undefined {
  if (sku.user_access_only) return 'Nobody can have root on machines of this kind.'
  return settled && !settled.root_access ? `The ${settled.root_access_from} does not allow it.` : undefined
}

type Choice = Schemas['AllocationChoice']

/** choicesOf is what nodes of a SKU can be asked for: regions, and labels as KEY=VALUE. */
export function choicesOf(choices: Choice[], sku: string): { regions: string[]; labels: string[] } {
  const fitting = choices.filter((c) => c.sku === sku)
  const labels = fitting.flatMap((c) => c.node_labels.flatMap((l) => l.values.map((v) => `${l.key}=${v}`)))
  return { regions: fitting.map((c) => c.region), labels: [...new Set(labels)].sort() }
}
