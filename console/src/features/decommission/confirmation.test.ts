import { describe, expect, it } from 'vitest'
import { confirmationOf, meantOf, subjectOf } from './confirmation'

const node = (node_id: string, status = 'active') => ({ node_id, hostname: node_id, status })
const choices = { erase: 'quick', cleanup: 'local' } as const

describe('meantOf', () => {
  const nodes = [node('a'), node('b', 'retired')]
  it('is all that fit, or only those that can be operated on where the others are left out', () => {
    expect(meantOf(nodes, ['active'], false)).toEqual(nodes)
    expect(meantOf(nodes, ['active'], true)).toEqual([nodes[0]])
    expect(meantOf(nodes, undefined, true)).toEqual(nodes)
  })
})

it('says in the confirmation how many are meant', () => {
  expect(confirmationOf('reimage', 15)).toBe('reimage 15 nodes')
  expect(confirmationOf('full_decommission', 1)).toBe('full decommission 1 node')
})

describe('subjectOf', () => {
  const of = (prefix: string, ids: string[], erase: 'quick' | 'secure' = 'quick') => subjectOf('reimage', { ...choices, erase }, { hostname_prefix: prefix }, ids.map((id) => node(id)))
  it('is another one when other nodes are meant, or something else is done to them', () => {
    const first = of('gpu-00021', ['a'])
    expect(of('gpu-00021', ['a'])).toBe(first)
    expect(of('g', ['a'])).not.toBe(first)
    expect(of('gpu-00021', ['b'])).not.toBe(first)
    expect(of('gpu-00021', ['a'], 'secure')).not.toBe(first)
  })
  it('does not depend on the order in which nodes were read, nor on their states', () => {
    expect(of('g', ['b', 'a'])).toBe(of('g', ['a', 'b']))
  })
})
