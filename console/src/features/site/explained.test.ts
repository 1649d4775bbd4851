import { describe, expect, it } from 'vitest'
import { bodyOf, byField, draftOf, emptied, explained, wrongs } from './explained'
import { nameRule } from './rules'

describe('wrongs', () => {
  it('knows the limits of the contract', () => {
    expect(wrongs('SiteNewBody', { name: ' ', pxe_vlan_vid: '4095', max_parallel: '1.5', deploy_user: '' })).toEqual({
      name: 'is required',
      pxe_vlan_vid: 'must be 0 to 4,094',
      max_parallel: 'must be a whole number',
    })
    expect(wrongs('SkuNewBody', { price_currency: 'usd' })).toEqual({ price_currency: 'must be of the form USD' })
  })

  it('asks further rules only about what was typed', () => {
    expect(wrongs('SiteNewBody', { name: 'No Name', region_code: 'eu-1' }, { name: nameRule, region_code: nameRule })).toEqual({ name: expect.stringContaining('lower-case') as string })
  })
})

describe('bodyOf', () => {
  const draft = { name: ' lab ', pxe_vlan_vid: '0', allowed_networks: '10.0.0.0/8, 10.1.0.0/16\n', deploy_user: '' }

  it('makes what the contract wants, and leaves out what was left empty', () => {
    expect(bodyOf('SiteNewBody', draft)).toEqual({ name: 'lab', pxe_vlan_vid: 0, allowed_networks: ['10.0.0.0/8', '10.1.0.0/16'] })
  })

  it('sends only what has changed, also when it was emptied', () => {
    expect(bodyOf('SiteNewBody', { ...draft, allowed_networks: '' }, draft)).toEqual({ allowed_networks: [] })
    expect(bodyOf('SiteNewProfileBody', { require_hw_sync: false }, { require_hw_sync: true })).toEqual({ require_hw_sync: false })
  })

  it('comes back to what it was made of', () => {
    const site = { name: 'lab', pxe_vlan_vid: 0, allowed_networks: ['10.0.0.0/8'], more: 1 }
    const made = draftOf('SiteNewBody', ['name', 'pxe_vlan_vid', 'allowed_networks'], site)
    expect(made).toEqual({ name: 'lab', pxe_vlan_vid: '0', allowed_networks: '10.0.0.0/8' })
    expect(bodyOf('SiteNewBody', made, made)).toEqual({})
  })
})

it('what had a value keeps one, unless it may be empty', () => {
  const before = { max_parallel: '20', ca_certificate: 'PEM', pxe_iface: '', tick: true }
  expect(emptied({ max_parallel: ' ', ca_certificate: '', pxe_iface: '', tick: false }, before, ['ca_certificate'])).toEqual({ max_parallel: 'must not be empty' })
})

describe('byField', () => {
  it('gives a list the problems of its values', () => {
    const refused = { name: 'is taken', 'allowed_networks[1]': 'must be a network', 'allowed_networks[2]': 'must be a network', 'power.user': 'must not be empty' }
    expect(byField(refused)).toEqual({ name: 'is taken', allowed_networks: 'value 2 must be a network; value 3 must be a network', 'power.user': 'must not be empty' })
  })
})

it('every policy of a profile is explained', () => {
  for (const [field, e] of Object.entries(explained.SiteNewProfileBody)) {
    if (field !== 'description') expect(e.description, field).toBeTruthy()
  }
})
