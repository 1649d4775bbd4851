import { describe, expect, it } from 'vitest'
import { paramsOf, sample } from './params'

describe('paramsOf', () => {
  it('reads an object, or nothing', () => {
    expect(paramsOf(' ')).toEqual({})
    expect(paramsOf('{"scope":"local"}')).toEqual({ value: { scope: 'local' } })
  })

  it('says what is wrong', () => {
    expect(paramsOf('{"a":').error).toMatch(/not JSON/)
    for (const text of ['[]', '"a"', 'null', '3']) expect(paramsOf(text).error).toMatch(/object/)
  })
})

describe('sample', () => {
  it('can be read, and is empty where nothing is known', () => {
    expect(paramsOf(sample('node.storage_cleanup')).value).toEqual({ scope: 'local' })
    expect(sample('node.heartbeat_check')).toBe('')
  })
})
