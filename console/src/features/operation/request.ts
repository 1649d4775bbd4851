import type { Schemas } from '../../api/client'
import { given, readLabels } from '../../ui/labels'
import { share } from './operation'

/** What a run is about, as it is typed. */
export type Choice = { names: string; allocations: string[]; rack: string; region: string; pool: string; sku: string; labels: string; atOnce: string; mayFail: string; noRamp: boolean; onlyPlan: boolean; reason: string }

export const blank: Choice = { names: '', allocations: [], rack: '', region: '', pool: '', sku: '', labels: '', atOnce: '', mayFail: '', noRamp: false, onlyPlan: false, reason: '' }

/** mostNames is how many nodes may be named one by one here: each is looked up by its name. */
export const mostNames = 200

/** namesOf reads names of nodes: one a line, or with spaces or commas between; each once. */
export const namesOf = (text: string) => [...new Set(text.split(/[\s,]+/).filter((n) => n !== ''))]

type Wish = Omit<Schemas['OperationSubmitBody'], 'operation' | 'inputs' | 'targets'> & { targets: Omit<Schemas['OperationTargetsBody'], 'nodes'> }

/** wishOf is the request but for its nodes, which are looked up by their names; what is wrong; and whether anything is chosen. */
export function wishOf(c: Choice, inProject: boolean): { wish: Wish; names: string[]; wrong: Partial<Record<keyof Choice, string>>; chosen: boolean } {
  const wrong: Partial<Record<keyof Choice, string>> = {}
  const names = inProject ? [] : namesOf(c.names)
  if (names.length > mostNames) wrong.names = `${names.length} names are too many here, ${mostNames} are the most. Choose by rack, pool, SKU or labels.`
  const { labels, wrong: badLabels } = readLabels(c.labels)
  if (badLabels) wrong.labels = badLabels
  const atOnce = share(c.atOnce, 1)
  const mayFail = share(c.mayFail, 0)
  if (atOnce.wrong) wrong.atOnce = atOnce.wrong
  if (mayFail.wrong) wrong.mayFail = mayFail.wrong
  const place = inProject ? {} : { rack: c.rack.trim() || undefined, region: c.region.trim() || undefined, pool: c.pool.trim() || undefined, sku: c.sku || undefined }
  const where = { ...place, labels: given(labels) }
  const narrowed = Object.values(where).some((v) => v !== undefined)
  const allocations = inProject && c.allocations.length > 0 ? c.allocations : undefined
  return {
    wish: {
      targets: { allocations, where: narrowed ? where : undefined },
      max_concurrency: atOnce.count,
      max_concurrency_percent: atOnce.percent,
      max_failures: mayFail.count,
      max_failures_percent: mayFail.percent,
      no_ramp: c.noRamp || undefined,
      only_plan: c.onlyPlan || undefined,
      reason: c.reason.trim() || undefined,
    },
    names,
    wrong,
    chosen: names.length > 0 || !!allocations || narrowed,
  }
}
