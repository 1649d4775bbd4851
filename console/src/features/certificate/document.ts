import type { Schemas } from '../../api/client'
import type { Tone } from '../../ui/tone'
import { words } from '../../ui/tone'

/** A document as it is: there may have been no look afterwards, which the types of the contract do not tell. */
export type Document = Omit<Schemas['CertificateDocument'], 'validation'> & { validation: Schemas['CertificateValidation'] | null }
export type Signed = Omit<Schemas['CertificateSigned'], 'document'> & { document: Document }
export type Subject = Schemas['CertificateSubject']

export const kindWords: Record<Document['kind'], string> = { certificate: 'Certificate', handover_receipt: 'Handover receipt' }

const units = ['B', 'kB', 'MB', 'GB', 'TB', 'PB']

/** bytes writes a size as people say it. */
export function bytes(n: number): string {
  let unit = 0
  let rest = n
  while (rest >= 1000 && unit < units.length - 1) {
    rest /= 1000
    unit++
  }
  return `${unit === 0 || rest >= 100 ? Math.round(rest) : rest.toFixed(1)} ${units[unit] ?? ''}`
}

/**
 * covered says how much of a subject was reached. It never rounds up to all: a
 * certificate that says 100 % means every byte.
 */
export function covered(s: Pick<Subject, 'covered_bytes' | 'total_bytes'>): string | undefined {
  if (s.total_bytes === 0) return undefined
  if (s.covered_bytes >= s.total_bytes) return `all of ${bytes(s.total_bytes)}`
  const percent = Math.floor((s.covered_bytes / s.total_bytes) * 1000) / 10
  return `${percent} % of ${bytes(s.total_bytes)}`
}

const levels: Record<Subject['level'], string> = { none: 'nothing claimed', clear: 'clear', purge: 'purge' }

export function levelWords(level: Subject['level']): string {
  return levels[level]
}

const outcomeTones: Record<Subject['outcome'], Tone> = { sanitized: 'ok', done: 'ok', failed: 'bad', refused: 'warn' }

export function toneOfOutcome(outcome: Subject['outcome']): Tone {
  return outcomeTones[outcome]
}

/** verified says how it was found out that a subject is clean, and with what result. */
export function verified(v: Subject['verification']): { tone: Tone; result: string; how: string } {
  if (v.result === 'none') return { tone: 'idle', result: 'none', how: '' }
  const parts = [v.how]
  if (v.canaries_planted > 0) parts.push(`${v.canaries_found} of ${v.canaries_planted} canaries still present`)
  if (v.samples > 0) parts.push(`${v.samples_unclean} of ${v.samples} samples not clean`)
  if (v.bytes_read > 0) parts.push(`${bytes(v.bytes_read)} read back`)
  return { tone: v.result === 'passed' ? 'ok' : 'bad', result: v.result, how: parts.filter(Boolean).join(', ') }
}

/** accessWords holds the sentences of the contract about access; a test compares them with what the command line writes. */
export const accessWords = {
  nobody: 'no known access',
  user: 'an ordinary user, last access at ',
  foreign: 'an installation that gpuaas did not make',
  made: 'an installation that started at ',
  compromised: '; somebody had root on it, so its own reports are not independent',
  looked: { clean: 'No tenant data was found', found: 'Tenant data was found' },
} as const

/** had says the most that somebody had on the node. */
export function had(a: NonNullable<Document['access']>, when: (at: string) => string): string {
  const at = a.at ? when(a.at) : 'not known'
  if (a.had === 'none') return accessWords.nobody
  return a.had === 'user' ? accessWords.user + at : `root (${words(a.cause ?? '')}), last at ${at}`
}

/** testifies says which installation speaks for the node, and whether it can. */
export function testifies(i: NonNullable<Document['installation']>, when: (at: string) => string): string {
  const made = i.made_at ? accessWords.made + when(i.made_at) + (i.made_by ? ` by ${i.made_by}` : '') : accessWords.foreign
  return i.independent ? made : made + accessWords.compromised
}

/** fileName is what the file of a certificate is called when it is kept. */
export function fileName(d: Pick<Document, 'kind' | 'seq' | 'node'>): string {
  return `${d.node.hostname.replace(/[^A-Za-z0-9.-]/g, '_')}-${d.seq}-${d.kind}.json`
}

/** weak tells what a reader of the document has to know before relying on it. */
export function weak(d: Pick<Document, 'subjects' | 'overrides' | 'downgrades' | 'validation' | 'installation'>): string[] {
  const out: string[] = []
  const told = d.subjects.filter((s) => s.not_independent)
  if (d.installation && !d.installation.independent) out.push('somebody had root on the installation that made these reports, so they are not independent')
  if (told.length > 0) out.push(`the report about ${told.map((s) => `${words(s.kind)} ${s.identifier}`).join(', ')} is not independent`)
  if (d.validation?.not_independent) out.push('the check afterwards is not independent')
  const failed = d.subjects.filter((s) => s.outcome === 'failed' || s.outcome === 'refused')
  if (failed.length > 0) out.push(`${failed.map((s) => `${words(s.kind)} ${s.identifier}`).join(', ')} could not be cleaned`)
  const downgrades = d.downgrades.length
  if (downgrades > 0) out.push(`gpuaas did less than requested, ${downgrades} ${downgrades === 1 ? 'time' : 'times'}`)
  const overrides = d.overrides.length
  if (overrides > 0) out.push(`operators skipped ${overrides} ${overrides === 1 ? 'stage' : 'stages'}`)
  if (d.validation && !d.validation.clean) out.push('the check afterwards found something')
  return out
}
