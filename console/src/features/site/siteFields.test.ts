import { describe, expect, it } from 'vitest'
import { bodyOf } from './explained'
import { acceptsAnew, runsAnything, siteDraft, wrongSite } from './siteFields'

const of = (api_base_url: string, hw_sync_http: string) => siteDraft({ name: 'dc1', region_code: 'eu-1', pxe_iface: 'eth0', pxe_vlan_vid: 0, node_pxe_iface: 'eth0', api_base_url, hw_sync_http })
const http = 'http://maas.example:5240/MAAS'
const https = 'https://maas.example/MAAS'

describe('hardware sync over plain HTTP', () => {
  it('leaves a site that nobody has decided about undecided, and does not stand in the way of other changes', () => {
    const before = of(http, 'undecided')
    const draft = { ...before, max_parallel: '7' }
    expect(wrongSite(before)(draft)).toEqual({})
    expect(bodyOf('SiteNewBody', draft, before)).toEqual({ max_parallel: 7 })
    expect(bodyOf('SiteNewBody', { ...before, hw_sync_http: 'pinned' }, before)).toEqual({ hw_sync_http: 'pinned' })
  })
  it.each([
    ['decided', of(http, 'undecided'), of(http, 'accepted'), true],
    ['of a pinned site', of(http, 'pinned'), of(http, 'accepted'), true],
    ['accepted long ago', of(http, 'accepted'), of(http, 'accepted'), false],
    ['taken back', of(http, 'accepted'), of(http, 'pinned'), false],
    ['without meaning over https', of(https, 'pinned'), of(https, 'accepted'), false],
    ['when MAAS moves to plain HTTP', of(https, 'accepted'), of(http, 'accepted'), true],
    ['in capital letters', of(http, 'pinned'), of('HTTPS://maas.example/MAAS', 'accepted'), false],
  ])('asks for a confirmation: %s', (_, before, draft, asks) => expect(acceptsAnew(draft, before)).toBe(asks))
  it('goes on warning of what was accepted', () => {
    expect(runsAnything(of(http, 'accepted'))).toBe(true)
    expect(runsAnything(of(http, 'undecided'))).toBe(false)
  })
})
