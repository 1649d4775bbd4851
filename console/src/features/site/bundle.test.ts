import { expect, it } from 'vitest'
import { base64, hex, mostBytes, wrongRef, wrongSize } from './bundle'

it('takes names with a version', () => {
  expect(wrongRef('site-setup@2.1')).toBeUndefined()
  for (const wrong of ['', 'site-setup', '@2', 'site setup@2', 'Site@2', `a@${'1'.repeat(130)}`]) expect(wrongRef(wrong)).toBeTruthy()
})

it('takes files of a size that the control plane takes', () => {
  expect(wrongSize(1)).toBeUndefined()
  expect(wrongSize(mostBytes)).toBeUndefined()
  expect(wrongSize(0)).toBeTruthy()
  expect(wrongSize(mostBytes + 1)).toBeTruthy()
})

it('writes bytes as text', () => {
  expect(hex(new Uint8Array([0, 15, 255]))).toBe('000fff')
  expect(base64(new Uint8Array([0, 255, 16]))).toBe('AP8Q')
})
