import { expect, test } from 'vitest'
import { kindsOf } from './whose'

test('people come first, and everybody where something is named', () => {
  expect(kindsOf({})).toEqual(['user', 'anonymous'])
  expect(kindsOf({ by: 'nonsense' })).toEqual(['user', 'anonymous'])
  expect(kindsOf({ by: 'programs' })).toEqual(['service_account'])
  expect(kindsOf({ by: 'all' })).toBeUndefined()
  expect(kindsOf({ target: 'c07u31' })).toBeUndefined()
  expect(kindsOf({ action: 'node.trust_refused' })).toBeUndefined()
  expect(kindsOf({ target: 'c07u31', by: 'people' })).toEqual(['user', 'anonymous'])
})
