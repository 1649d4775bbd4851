import { expect, it } from 'vitest'
import { batchTone } from './batchtone'

it('is red while one waits for somebody, also in a batch that was cancelled', () => {
  expect(batchTone('settled', 0)).toBe('ok')
  expect(batchTone('settled', 1)).toBe('bad')
  expect(batchTone('cancelled', 0)).toBe('idle')
  expect(batchTone('cancelled', 1)).toBe('bad')
  expect(batchTone('halted', 0)).toBe('bad')
  expect(batchTone('paused', 1)).toBe('warn')
  expect(batchTone('running', 1)).toBe('info')
})
