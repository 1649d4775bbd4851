import { enums } from '../../api/gen/enums'
import type { Search } from '../../app/ahead'

type Kind = (typeof enums)['list-audit-logs.actor_kinds'][number]

const kinds: Record<string, Kind[] | undefined> = {
  people: ['user', 'anonymous'],
  programs: ['service_account'],
  platform: ['system', 'node'],
  all: undefined,
}

/** Whose entries can be shown. Most of what happens is done by nodes and by the control plane; people look for people first. */
export const whose = [
  { value: '', label: 'people' },
  { value: 'programs', label: 'service accounts' },
  { value: 'platform', label: 'control plane and nodes' },
  { value: 'all', label: 'everybody' },
]

/** about says whether the filters name somebody or something: then everybody's entries belong to it. */
export function about(search: Search): boolean {
  return !!(search.action || search.actor || search.actor_id || search.target || search.target_id || search.correlation_id)
}

/** kindsOf are the kinds of actors that are asked for; undefined means all. */
export function kindsOf(search: Search): Kind[] | undefined {
  const by = search.by ?? (about(search) ? 'all' : 'people')
  return by in kinds ? kinds[by] : kinds.people
}
