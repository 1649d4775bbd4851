import type { Schemas } from '../../api/client'
import type { Tone } from '../../ui/tone'

export type Quota = Schemas['QuotaView']
export type Limits = Schemas['QuotaLimitsBody']

/** Measure is what is used of one number of a quota. */
export type Measure = { unit: 'GPUs' | 'nodes'; used: number; limit: number }

/** measures are the numbers that a quota limits. */
export function measures(q: Pick<Quota, 'gpus' | 'nodes' | 'used_gpus' | 'used_nodes'>): Measure[] {
  const out: Measure[] = []
  if (q.gpus !== undefined) out.push({ unit: 'GPUs', used: q.used_gpus, limit: q.gpus })
  if (q.nodes !== undefined) out.push({ unit: 'nodes', used: q.used_nodes, limit: q.nodes })
  return out
}

/** fullness says how near to its limit something is: what is used up refuses the next request. */
export function fullness({ used, limit }: Pick<Measure, 'used' | 'limit'>): Tone {
  if (used > limit) return 'bad'
  return used === limit ? 'warn' : 'ok'
}

/** share is how much of a limit is used, from 0 to 1. */
export const share = ({ used, limit }: Pick<Measure, 'used' | 'limit'>) => (limit === 0 ? 1 : Math.min(1, used / limit))

const number = (text: string): number | undefined => (text.trim() === '' ? undefined : Number(text))
const wrongNumber = (n: number | undefined) => (n === undefined || (Number.isInteger(n) && n >= 0 && n <= 1_000_000) ? undefined : 'A whole number from 0 to 1000000.')

/** draftOf reads what was typed as limits: an empty field does not limit. */
export function draftOf(gpus: string, nodes: string): { body: Limits; wrong: { gpus?: string; nodes?: string }; ready: boolean } {
  const body = { gpus: number(gpus), nodes: number(nodes) }
  const wrong = { gpus: wrongNumber(body.gpus), nodes: wrongNumber(body.nodes) }
  const limits = body.gpus !== undefined || body.nodes !== undefined
  return { body, wrong, ready: limits && !wrong.gpus && !wrong.nodes }
}

/** Ask is what a request would add. */
export type Ask = { sku: string; gpus: number; nodes: number }

/** asked says, for every quota that a request is held to, what is used, asked and allowed. */
export function asked(quotas: Quota[], ask: Ask): (Measure & { quota: Quota; asked: number; over: boolean })[] {
  return quotas
    .filter((q) => !q.sku || q.sku === ask.sku)
    .flatMap((quota) =>
      measures(quota).map((m) => {
        const more = m.unit === 'GPUs' ? ask.gpus : ask.nodes
        return { ...m, quota, asked: more, over: more > 0 && m.used + more > m.limit }
      }),
    )
}
