import type { Schemas } from '../../api/client'

export type Policy = Schemas['PolicyView']
export type Decision = Schemas['PolicyDecisionView']
export type Body = Schemas['PolicyGlobalBody']

/** Whose policy is meant: of a project, of a tenant, or of the platform. */
export type Level = { orgId?: string; projectId?: string }

/** everyType stands for all types of operations. */
export const everyType = '*'

export const keyWords: Record<Decision['key'], string> = {
  enabled: 'Can it be run',
  max_concurrency: 'Nodes at a time, at most',
  timeout_seconds: 'Seconds on one node, at most',
  allowed_target_kinds: 'Allowed targets',
  allowed_artifact_sources: 'Where artifacts may come from',
  require_signature_verification: 'Signatures of artifacts are checked',
  max_artifact_size_bytes: 'Bytes of an artifact, at most',
}

export const scopeWords: Record<Decision['scope'], string> = { built_in: 'nobody: it is built in', global: 'the platform', tenant: 'the tenant', project: 'the project' }

export const targetKinds = ['node', 'allocation', 'group'] as const

/** What is typed: empty means that this level settles nothing. */
export type Draft = { enabled: string; concurrency: string; timeout: string; size: string; signature: boolean; narrowKinds: boolean; kinds: string[]; narrowSources: boolean; sources: string; hardDeny: boolean; reason: string }

const text = (n: number | undefined) => (n === undefined ? '' : String(n))

/** draftOf is what a level has settled, as it is typed. */
export function draftOf(p: Policy): Draft {
  return {
    enabled: p.enabled === undefined ? '' : String(p.enabled),
    concurrency: text(p.max_concurrency),
    timeout: text(p.timeout_seconds),
    size: text(p.max_artifact_size_bytes),
    signature: p.require_signature_verification === true,
    narrowKinds: p.allowed_target_kinds !== undefined,
    kinds: p.allowed_target_kinds ?? [...targetKinds],
    narrowSources: p.allowed_artifact_sources !== undefined,
    sources: (p.allowed_artifact_sources ?? []).join('\n'),
    hardDeny: p.hard_deny === true,
    reason: '',
  }
}

/** bodyOf is what is sent, and what is wrong. Only the platform can deny for good. */
export function bodyOf(d: Draft, onPlatform: boolean): { body: Body; wrong: Partial<Record<keyof Draft, string>> } {
  const wrong: Partial<Record<keyof Draft, string>> = {}
  const count = (key: 'concurrency' | 'timeout' | 'size') => {
    const typed = d[key].trim()
    if (typed === '') return undefined
    const value = Number(typed)
    if (/^\d+$/.test(typed) && value >= 1 && Number.isSafeInteger(value)) return value
    wrong[key] = 'A whole number of at least 1, or empty.'
    return undefined
  }
  const body: Body = {
    enabled: d.enabled === '' ? undefined : d.enabled === 'true',
    max_concurrency: count('concurrency'),
    timeout_seconds: count('timeout'),
    max_artifact_size_bytes: count('size'),
    require_signature_verification: d.signature || undefined,
    allowed_target_kinds: d.narrowKinds ? d.kinds : undefined,
    allowed_artifact_sources: d.narrowSources ? d.sources.split('\n').map((s) => s.trim()).filter((s) => s !== '') : undefined,
    reason: d.reason.trim() || undefined,
  }
  if (onPlatform) body.hard_deny = d.hardDeny || undefined
  return { body, wrong }
}
