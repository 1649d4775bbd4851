import { describe, expect, it } from 'vitest'
import { wrongTerms } from './skuTerms'

const right = { sku_id: 'h200-sxm-8g', display_name: 'H200', gpu_vendor: 'nvidia', gpu_model: 'H200', gpus_total: '8', capacity_shape: 'node', allowed_counts: '1, 2', price_minor: '350', price_currency: 'USD' }

describe('wrongTerms', () => {
  it('takes what is right', () => expect(wrongTerms(right)).toEqual({}))

  it.each<[string, Partial<typeof right>]>([
    ['sku_id', { sku_id: 'H200' }],
    ['display_name', { display_name: '' }],
    ['gpus_total', { gpus_total: '65' }],
    ['gpus_total', { gpus_total: '0' }],
    ['gpus_total', { gpu_vendor: 'none' }],
    ['allowed_counts', { allowed_counts: '0' }],
    ['allowed_counts', { allowed_counts: 'one' }],
    ['allowed_counts', { allowed_counts: '' }],
    ['allowed_counts', { capacity_shape: 'slice', allowed_counts: '9' }],
    ['price_currency', { price_currency: 'usd' }],
    ['price_minor', { price_minor: '-1' }],
  ])('refuses a wrong %s', (field, change) => expect(Object.keys(wrongTerms({ ...right, ...change }))).toEqual([field]))

  it('counts machines where they are rented whole', () => expect(wrongTerms({ ...right, allowed_counts: '1024' })).toEqual({}))
})
