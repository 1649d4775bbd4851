import type { Schemas } from '../../api/client'
import type { Tone } from '../../ui/tone'

export type Definition = Schemas['DefinitionCatalogView']

export const riskTone: Record<Definition['risk'], Tone> = { low: 'ok', medium: 'warn', high: 'bad' }

export const impactTone: Record<Definition['impact'], Tone> = { none: 'idle', read: 'idle', mutate: 'warn', disrupt: 'bad' }

/** impactWords says what an operation, or a step, does to a node. */
export const impactWords: Record<Definition['impact'], string> = { none: 'nothing', read: 'reads only', mutate: 'changes the node', disrupt: 'interrupts work' }

/** rentedWords says who may have the node meanwhile. */
export const rentedWords: Record<Definition['rented'], string> = {
  none: 'only nodes that nobody rents',
  project: 'nodes that nobody rents, or that the requesting project rents',
  any: 'any node, even a rented one, because it changes nothing',
}

export const approvalWords: Record<Definition['approval'], string> = {
  none: 'nobody',
  project_admin: 'somebody else, who administers the project',
  tenant_admin: 'somebody else, who administers the tenant',
  operator: 'somebody else, who is an operator of the platform',
  platform_admin: 'somebody else, who administers the platform',
}

const numberOf = (version: string) => Number(version.replace(/^v/, '')) || 0

/** A kind of operation with its versions. */
export type Entry = { newest: Definition; versions: Definition[] }

/** entriesOf puts versions of one type together, the newest first; what is active comes before what is deprecated. */
export function entriesOf(all: Definition[]): Entry[] {
  const types = new Map<string, Definition[]>()
  for (const d of all) types.set(d.operation_type, [...(types.get(d.operation_type) ?? []), d])
  const active = (d: Definition) => (d.status === 'active' ? 1 : 0)
  return [...types.values()]
    .map((versions) => versions.sort((a, b) => active(b) - active(a) || numberOf(b.version) - numberOf(a.version)))
    .flatMap((versions) => (versions[0] ? [{ newest: versions[0], versions }] : []))
    .sort((a, b) => a.newest.operation_type.localeCompare(b.newest.operation_type))
}
