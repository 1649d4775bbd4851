import { expect, it } from 'vitest'
import { fromTo, outcome, shortDigest, type Artifact } from './changes'

const aa = `sha256:${'a'.repeat(64)}`
const bb = `sha256:${'b'.repeat(64)}`
const of = (patch: Partial<Artifact>) => ({ kind: 'file', role: 'produced', name: '/etc/demo.conf', ...patch }) as Artifact
const said = (patch: Partial<Artifact>) => [outcome(of(patch)).words, fromTo(of(patch))]

it('a package goes from one version to another', () => {
  expect(said({ kind: 'package', after: '1.24' })).toEqual(['installed', '1.24'])
  expect(said({ kind: 'package', before: '1.18', after: '1.24' })).toEqual(['changed', '1.18 → 1.24'])
  expect(said({ kind: 'package', role: 'used', before: '1.24', after: '1.24' })).toEqual(['unchanged', '1.24'])
  expect(said({ kind: 'package', role: 'removed', before: '1.18' })).toEqual(['removed', 'was 1.18'])
})

it('a file goes from one content to another, and one that holds a secret does not show it', () => {
  expect(said({ digest: aa })).toEqual(['created', shortDigest(aa)])
  expect(said({ digest: aa, before: bb })).toEqual(['replaced', `${shortDigest(bb)} → ${shortDigest(aa)}`])
  expect(said({ before: bb })).toEqual(['replaced', `${shortDigest(bb)} → not shown`])
  expect(said({ role: 'used', digest: aa })).toEqual(['unchanged', shortDigest(aa)])
  expect(said({ role: 'removed', digest: '', before: bb })).toEqual(['removed', `was ${shortDigest(bb)}`])
  expect(said({ kind: 'backup', digest: bb })).toEqual(['kept', shortDigest(bb)])
  expect(shortDigest('1.24-2ubuntu7.5~bpo12+1~really.long')).toBe('1.24-2ubuntu7.5~bpo12+1~really.long')
})
