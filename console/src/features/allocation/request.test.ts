import { describe, expect, it } from 'vitest'
import { blank, choicesOf, explained, noRoot, priceWords, wishOf } from './request'

const h200 = { sku_id: 'h200', currency: 'USD' }
const sent = (draft: Partial<typeof blank>, scarce = false) => JSON.parse(JSON.stringify(wishOf(h200, { ...blank, ...draft }, scarce).body)) as unknown

describe('wishOf', () => {
  it('says nothing that nobody chose', () => {
    expect(sent({})).toEqual({ sku: 'h200', count: 1 })
  })
  it('passes on every choice', () => {
    const all = { count: '2', name: ' train ', life: 'set', lasts: '7d', root: true, guarded: true, arrangement: 'same_rack', region: 'lab', nodeLabels: 'public/tier=fast', labels: 'team=vision', most: '28.50', keys: ['k1'] } as const
    expect(sent({ ...all, keys: ['k1'] })).toEqual({
      sku: 'h200', count: 2, name: 'train', access: 'root', protected: true, arrangement: 'same_rack', region: 'lab',
      node_labels: { 'public/tier': 'fast' }, labels: { team: 'vision' }, ssh_key_ids: ['k1'], expires_in_seconds: 604_800, hour_most: { amount_minor: 2850, currency: 'USD' },
    })
    expect(sent({ life: 'never' })).toMatchObject({ expires_in_seconds: 0 })
  })
  it('waits only where there are not enough nodes', () => {
    expect(sent({ waits: '2h' })).not.toHaveProperty('wait_up_to_seconds')
    expect(sent({ waits: '2h' }, true)).toMatchObject({ wait_up_to_seconds: 7200 })
  })
  it.each([
    ['no count', { count: '0' }],
    ['too many', { count: '65' }],
    ['a life that is none', { life: 'set', lasts: '' }],
    ['a patience of eight days', { waits: '8d' }],
    ['an amount that is none', { most: '28.505' }],
    ['a label that is none', { nodeLabels: 'fast' }],
    ['no key at all', { keys: [] as string[] }],
  ] as const)('is not ready with %s', (_, wrong) => expect(wishOf(h200, { ...blank, ...wrong, keys: 'keys' in wrong ? [] : undefined }, true).ready).toBe(false))
})

it('asks for capacity and price by what decides them', () => {
  expect(explained({ sku: 'h200', name: 'train', region: 'lab', count: 3, wait_up_to_seconds: 5, expires_in_seconds: 60 })).toEqual({ sku: 'h200', region: 'lab', count: 3, expires_in_seconds: 60 })
})

it('says what is charged, and where nothing is', () => {
  expect(priceWords(undefined, '28.00 USD').before).toBe('By the list')
  expect(priceWords(null, '28.00 USD')).toMatchObject({ before: expect.stringContaining('Nothing is charged') as string, amount: '28.00 USD' })
  expect(priceWords({ currency: 'USD', hour_minor: 2520 }, '28.00 USD')).toEqual({ amount: '25.20 USD', after: 'an hour, from the moment it is yours until you give it back.' })
  expect(priceWords({ currency: 'USD', hour_minor: 2520, until_expiry_minor: 5040 }, '28.00 USD').after).toContain('50.40 USD until it ends by itself')
})

it('says why there is no root', () => {
  expect(noRoot({ user_access_only: true }, undefined)).toContain('Nobody')
  expect(noRoot({ user_access_only: false }, { root_access: false, root_access_from: 'tenant' })).toBe('The tenant does not allow it.')
  expect(noRoot({ user_access_only: false }, { root_access: true, root_access_from: 'platform' })).toBeUndefined()
})

describe('choicesOf', () => {
  it('offers what nodes of the SKU have, each once', () => {
    const of = (sku: string, region: string, values: string[]) => ({ sku, region, node_labels: [{ key: 'public/tier', values }], capabilities: [] })
    expect(choicesOf([of('h200', 'eu', ['fast', 'slow']), of('h200', 'us', ['fast']), of('b200', 'asia', ['new'])], 'h200')).toEqual({
      regions: ['eu', 'us'],
      labels: ['public/tier=fast', 'public/tier=slow'],
    })
  })
})
