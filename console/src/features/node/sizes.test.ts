import { describe, expect, it } from 'vitest'
import { bytes, speed } from './sizes'

describe('bytes', () => {
  it('is said as people do', () => {
    expect(bytes(0)).toBe('0 B')
    expect(bytes(1536)).toBe('1.5 KiB')
    expect(bytes(141 * 2 ** 30)).toBe('141 GiB')
    expect(bytes(2 * 2 ** 40)).toBe('2 TiB')
    expect(bytes(2 ** 70)).toMatch(/PiB$/)
  })
})

describe('speed', () => {
  it('is said as people do', () => {
    expect(speed(400_000)).toBe('400 Gbit/s')
    expect(speed(100)).toBe('100 Mbit/s')
  })
})
