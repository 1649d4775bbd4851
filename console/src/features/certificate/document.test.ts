import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { accessWords, bytes, covered, fileName, had, testifies, verified, weak, type Subject } from './document'

const verification: Subject['verification'] = { result: 'passed', how: 'canaries probed', canaries_planted: 64, canaries_found: 0, samples: 0, samples_unclean: 0, bytes_read: 0 }
const subject: Subject = {
  kind: 'disk',
  identifier: 'S5P2NG0R',
  description: '',
  detail: '',
  covered_bytes: 0,
  total_bytes: 0,
  level: 'none',
  method: '',
  observed_by: 'agent',
  outcome: 'sanitized',
  tool: '',
  tool_version: '',
  started_at: '2026-01-01T00:00:00Z',
  ended_at: '2026-01-01T00:00:00Z',
  evidence: [],
  verification,
}

describe('bytes', () => {
  it.each([
    [0, '0 B'],
    [999, '999 B'],
    [1000, '1.0 kB'],
    [1_920_383_410_176, '1.9 TB'],
    [268_435_456, '268 MB'],
  ])('%i is %s', (n, text) => expect(bytes(n)).toBe(text))
})

describe('covered', () => {
  it('never rounds up to all', () => {
    expect(covered({ covered_bytes: 999_999, total_bytes: 1_000_000 })).toBe('99.9 % of 1.0 MB')
    expect(covered({ covered_bytes: 1_000_000, total_bytes: 1_000_000 })).toBe('all of 1.0 MB')
    expect(covered({ covered_bytes: 0, total_bytes: 0 })).toBeUndefined()
  })
})

describe('verified', () => {
  it('tells a look that found nothing from no look', () => {
    expect(verified(verification)).toEqual({ tone: 'ok', result: 'passed', how: 'canaries probed, 0 of 64 canaries still present' })
    expect(verified({ ...verification, result: 'none' })).toEqual({ tone: 'idle', result: 'none', how: '' })
    expect(verified({ ...verification, result: 'failed', canaries_found: 3 }).tone).toBe('bad')
  })
})

describe('access', () => {
  const when = (at: string) => `<${at}>`
  it('says what somebody had', () => {
    expect(had({ had: 'none' }, when)).toBe('no known access')
    expect(had({ had: 'user', at: 't' }, when)).toBe('an ordinary user, last access at <t>')
    expect(had({ had: 'root', cause: 'physical_console', at: 't' }, when)).toBe('root (physical console), last at <t>')
    expect(had({ had: 'root', cause: 'sudo' }, when)).toBe('root (sudo), last at not known')
  })
  it('says which installation testifies, and whether it can', () => {
    expect(testifies({ generation: 2, independent: true, made_at: 't', made_by: 'decommission 7' }, when)).toBe('an installation that started at <t> by decommission 7')
    expect(testifies({ generation: 1, independent: false }, when)).toBe('an installation that gpuaas did not make; somebody had root on it, so its own reports are not independent')
  })
  it('uses the words of the command line', () => {
    const command = ['render.go', 'templates/document.txt'].map((f) => readFileSync(new URL(`../../../../contract/certificate/${f}`, import.meta.url), 'utf8')).join('')
    const { looked, ...sentences } = accessWords
    for (const sentence of [...Object.values(sentences), ...Object.values(looked), 'root (%s), last at %s', 'NOT INDEPENDENT', 'Testifies']) expect(command).toContain(sentence)
  })
})

describe('fileName', () => {
  it('cannot lead out of a folder', () => {
    expect(fileName({ kind: 'certificate', seq: 2, node: { hostname: '../c07u31', id: '', region: '', sku: '' } })).toBe('.._c07u31-2-certificate.json')
  })
})

describe('weak', () => {
  const whole = { subjects: [subject], overrides: [], downgrades: [], validation: { clean: true, at: '', observed_by: 'agent' as const, evidence: [], findings: [], looked: [] } }
  it('is silent about a document without gaps', () => expect(weak(whole)).toEqual([]))
  it('names what a reader has to know', () => {
    expect(
      weak({
        subjects: [{ ...subject, outcome: 'failed' }],
        overrides: [{ stage: 'drain_node', by: 'Grace', at: '', why: '', residual_risk: '' }],
        downgrades: [],
        validation: { ...whole.validation, clean: false },
      }),
    ).toEqual(['disk S5P2NG0R could not be cleaned', 'operators skipped 1 stage', 'the check afterwards found something'])
  })
  it('names what is not independent', () => {
    expect(
      weak({
        ...whole,
        subjects: [{ ...subject, not_independent: 'somebody had root' }],
        validation: { ...whole.validation, not_independent: 'somebody had root' },
        installation: { generation: 1, independent: false },
      }),
    ).toEqual([
      'somebody had root on the installation that made these reports, so they are not independent',
      'the report about disk S5P2NG0R is not independent',
      'the check afterwards is not independent',
    ])
  })
})
