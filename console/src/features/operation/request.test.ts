import { expect, it } from 'vitest'
import { blank, namesOf, wishOf } from './request'

it('names of nodes are read however they are separated, each once', () => {
  expect(namesOf(' a, b\nc  a\n')).toEqual(['a', 'b', 'c'])
  expect(namesOf('')).toEqual([])
})

it('nothing chosen is not everything', () => {
  expect(wishOf(blank, false)).toMatchObject({ chosen: false, names: [] })
  expect(wishOf({ ...blank, names: 'a' }, true)).toMatchObject({ chosen: false, names: [] })
  expect(wishOf({ ...blank, allocations: ['x'], rack: 'r1' }, false)).toMatchObject({ chosen: true, wish: { targets: { allocations: undefined, where: { rack: 'r1' } } } })
  expect(wishOf({ ...blank, allocations: ['x'], rack: 'r1' }, true)).toMatchObject({ chosen: true, wish: { targets: { allocations: ['x'], where: undefined } } })
  expect(wishOf({ ...blank, labels: 'team=ml' }, true)).toMatchObject({ chosen: true, wish: { targets: { where: { labels: { team: 'ml' } } } } })
})

it('limits are numbers or shares', () => {
  expect(wishOf({ ...blank, atOnce: '5', mayFail: '10 %' }, false).wish).toMatchObject({ max_concurrency: 5, max_failures_percent: 10 })
  expect(wishOf({ ...blank, atOnce: '0', mayFail: '101%', labels: 'x' }, false).wrong).toEqual({ atOnce: 'A number from 1 to 1000, or a share such as 20%.', mayFail: 'A number from 0 to 1000, or a share such as 20%.', labels: '“x” is not a label. Write KEY=VALUE.' })
  expect(wishOf({ ...blank, names: Array.from({ length: 201 }, (_, i) => `n${i}`).join(' ') }, false).wrong.names).toContain('201 names')
})
