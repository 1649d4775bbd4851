import { expect, it } from 'vitest'
import { bodyOf, draftOf, type Policy } from './policy'

const nothing = { operation_type: 'x.y', scope: 'tenant', version: 0 } as Policy

it('what is left empty is not settled', () => {
  expect(JSON.parse(JSON.stringify(bodyOf(draftOf(nothing), false)))).toEqual({ body: {}, wrong: {} })
})

it('what is settled comes back as it was', () => {
  const settled = { enabled: false, max_concurrency: 5, timeout_seconds: 60, max_artifact_size_bytes: 1024, require_signature_verification: true, allowed_target_kinds: ['node'], allowed_artifact_sources: [] }
  expect(JSON.parse(JSON.stringify(bodyOf(draftOf({ ...nothing, ...settled, hard_deny: true }), true)))).toEqual({ body: { ...settled, hard_deny: true }, wrong: {} })
  expect(bodyOf(draftOf({ ...nothing, hard_deny: true }), false).body.hard_deny).toBeUndefined()
})

it('limits are whole numbers', () => {
  expect(bodyOf({ ...draftOf(nothing), concurrency: '0', timeout: 'soon', size: '1.5' }, false).wrong).toEqual({ concurrency: 'A whole number of at least 1, or empty.', timeout: 'A whole number of at least 1, or empty.', size: 'A whole number of at least 1, or empty.' })
})
