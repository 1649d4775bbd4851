import type { Problem } from '../../api/client'
import type { SiteOverview } from './findings'

type Judged = Pick<SiteOverview, 'name' | 'breaker'>

/** otherThanSeen says why a decision about a breaker is no longer about what was seen; undefined when it is. */
export function otherThanSeen(seen: Judged, now: Judged | undefined): Problem | undefined {
  const refuse = (code: string, detail: string, remedy: string): Problem => ({ type: 'about:blank', title: 'Not as it was', status: 409, code, detail, remedy })
  if (!now?.breaker) return refuse('breaker_closed', `The breaker of ${seen.name} is closed: somebody else decided, or it is over.`, 'Nothing was done. Close this and see how the nodes are.')
  if (now.breaker.confirmed_at) return refuse('breaker_confirmed', `Somebody else has confirmed the breaker of ${seen.name}.`, 'Nothing was done. Its nodes are being quarantined.')
  const ids = (site: Judged) => (site.breaker?.nodes ?? []).map((n) => n.node_id).sort().join()
  if (seen.breaker?.since !== now.breaker.since || ids(seen) !== ids(now)) {
    return refuse('breaker_changed', `Other nodes of ${seen.name} are held back now: ${now.breaker.nodes.length} instead of ${seen.breaker?.nodes.length ?? 0}.`, 'Nothing was done. Close this, look at the list and decide again.')
  }
  return undefined
}
