import { split, wrongs, type Draft, type Rule } from '../site/explained'

/** The fields of a SKU, in the order in which one thinks of them. */
export const skuFields = ['sku_id', 'display_name', 'gpu_vendor', 'gpu_model', 'gpus_total', 'capacity_shape', 'allowed_counts', 'price_minor', 'price_currency']

const rules: Record<string, Rule> = {
  sku_id: (text) => (/^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$/.test(text) ? undefined : 'must be 1 to 63 lower-case letters, digits, inner hyphens and dots'),
}

/** wrongTerms is what is wrong with a SKU; some rules are about two fields at once. */
export function wrongTerms(draft: Draft): Record<string, string> {
  const out = wrongs('SkuNewBody', draft, rules)
  const gpus = Number(draft.gpus_total)
  if (!out.gpus_total && (draft.gpu_vendor === 'none') !== (gpus === 0)) out.gpus_total = draft.gpu_vendor === 'none' ? 'is 0 where the vendor is none' : 'is 0 only where the vendor is none'
  const most = draft.capacity_shape === 'slice' ? gpus : 1024
  const counts = split(String(draft.allowed_counts))
  if (!out.allowed_counts && counts.some((c) => !/^\d{1,4}$/.test(c) || Number(c) < 1 || Number(c) > most)) out.allowed_counts = `must be numbers from 1 to ${most}`
  if (counts.length > 64) out.allowed_counts = 'must be at most 64 numbers'
  return out
}
