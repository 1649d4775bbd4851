import { expect, it } from 'vitest'
import { explained } from './explained'
import { policyFields } from './policies'

it('the groups hold every policy of the contract, each once', () => {
  const all = Object.keys(explained.SiteNewProfileBody).filter((f) => f !== 'name' && f !== 'description')
  expect([...policyFields].sort()).toEqual(all.sort())
})
