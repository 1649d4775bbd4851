import type { Schemas } from '../../api/client'
import { enums } from '../../api/gen/enums'
import type { Tone } from '../../ui/tone'

/** What a step left on a node, or found there. */
export type Artifact = Schemas['OperationArtifactView']

/** kinds are what a change can be about, as a filter offers them. */
export const kinds = enums['list-operation-artifacts.kind']

export const kindWords: Record<Artifact['kind'], string> = { file: 'file', backup: 'backup copy', package: 'package' }
export const manyWords: Record<Artifact['kind'], string> = { file: 'files', backup: 'backup copies', package: 'packages' }

/** outcome says in a word what became of it. */
export function outcome(a: Pick<Artifact, 'kind' | 'role' | 'before'>): { words: string; tone: Tone } {
  if (a.kind === 'backup') return { words: 'kept', tone: 'info' }
  if (a.role === 'used') return { words: 'unchanged', tone: 'idle' }
  if (a.role === 'removed') return { words: 'removed', tone: 'warn' }
  if (a.before) return { words: a.kind === 'package' ? 'changed' : 'replaced', tone: 'ok' }
  return { words: a.kind === 'package' ? 'installed' : 'created', tone: 'ok' }
}

/** shortDigest is the beginning of a digest; what is no digest stays as it is. */
export const shortDigest = (text: string) => (text.startsWith('sha256:') && text.length > 20 ? `${text.slice(0, 19)}…` : text)

/** now is the version or the content that is there, and nothing where it is gone or not told. */
const now = (a: Artifact) => (a.role === 'removed' ? '' : (a.after ?? a.digest ?? ''))

/** fromTo says what was there and what is there now: versions of a package, contents of a file. */
export function fromTo(a: Artifact): string {
  const [was, is] = [a.before ?? '', now(a)].map(shortDigest)
  if (a.role === 'removed') return was ? `was ${was}` : ''
  const after = is || (a.kind === 'package' ? '' : 'not shown')
  return was && a.role !== 'used' ? `${was} → ${after}` : after
}

/** keyOf tells apart what one step reports twice: a file, and the copy of what it replaced. */
export const keyOf = (a: Artifact) => [a.target_id, a.attempt_number, a.step_index, a.kind, a.name].join(' ')
