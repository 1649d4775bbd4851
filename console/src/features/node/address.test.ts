import { expect, test } from 'vitest'
import { isNodeId } from './address'

test('an id is told from a host name', () => {
  expect(isNodeId('0190b2f4-7c1e-7d3a-8f5b-00000000000c')).toBe(true)
  expect(isNodeId('0190B2F4-7C1E-7D3A-8F5B-00000000000C')).toBe(true)
  expect(isNodeId('gpu-00007')).toBe(false)
  expect(isNodeId('0190b2f4')).toBe(false)
})
