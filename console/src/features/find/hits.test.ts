import { expect, test } from 'vitest'
import { best, fits, nodeHit, wholeId } from './hits'

const node = { node_id: '0190b2f4-7c1e-7d3a-8f5b-2c6d9e0a1b3c', hostname: 'gpu-00007', status: 'active', drift_state: 'in_sync', schedulable: true, region_code: 'eu-1', site_id: 's1', rack: 'c07' } as const
const noSite = () => undefined

test('names fit in any part, ids by their beginning', () => {
  const of = { names: ['Audit log'], id: 'abcdef' }
  expect(fits('log', of)).toBe(true)
  expect(fits('abcd', of)).toBe(true)
  expect(fits('abc', of)).toBe(false) // part of anything
  expect(fits('bcdef', of)).toBe(false)
})

test('what begins so comes first, and only a few come', () => {
  const names = ['the lab', ...Array.from({ length: 8 }, (_, i) => `old lab ${i}`), 'lab']
  expect(best(names, 'lab', (n) => ({ names: [n] }))).toEqual(['lab', 'the lab', 'old lab 0', 'old lab 1', 'old lab 2', 'old lab 3'])
  expect(best(names, 'cellar', (n) => ({ names: [n] }))).toEqual([])
})

test('a node says where it is, how it is, and what is wrong with it', () => {
  expect(nodeHit('gpu', () => 'lab', node)).toMatchObject({ title: 'gpu-00007', detail: 'lab · rack c07 · eu-1', to: `/nodes/${node.node_id}`, state: { of: 'node', is: 'active' }, marks: [] })
  const parked = { ...node, severity: 'critical' as const, job: { job_id: 'j', kind: 'decommission' as const, status: 'failed_retryable' as const } }
  expect(nodeHit('gpu', noSite, parked).marks?.map((m) => m.text)).toEqual(['turnover parked', 'critical finding'])
  const busy = { ...node, job: { job_id: 'j', kind: 'onboarding' as const, status: 'running' as const } }
  expect(nodeHit('gpu', noSite, busy).marks).toEqual([])
})

test('a node that was not found by its name says so', () => {
  expect(nodeHit('0c:42', noSite, node).detail).toContain('by id, address, serial or MAC')
})

test('an id is whole or is none', () => {
  expect(wholeId(node.node_id)).toBe(true)
  expect(wholeId(node.node_id.slice(1))).toBe(false)
  expect(wholeId('gpu-00007')).toBe(false)
})
