import { emptied, wrongs, type Draft, type Rule } from './explained'
import { accountRule, certificatesRule, each, ifaceRule, ipRule, maasURLRule, nameRule, networkRule } from './rules'

/** siteFields is everything that somebody says of a site; credentials are written elsewhere. */
export const siteFields = [
  'name',
  'region_code',
  'api_base_url',
  'ca_certificate',
  'allowed_networks',
  'pxe_iface',
  'pxe_vlan_vid',
  'node_pxe_iface',
  'deploy_user',
  'deploy_ssh_iface',
  'upstream_dns_servers',
  'max_parallel',
]

const rules: Record<string, Rule> = {
  name: nameRule,
  region_code: nameRule,
  api_base_url: maasURLRule,
  ca_certificate: certificatesRule,
  allowed_networks: each(networkRule),
  pxe_iface: ifaceRule,
  node_pxe_iface: ifaceRule,
  deploy_user: accountRule,
  deploy_ssh_iface: ifaceRule,
  upstream_dns_servers: each(ipRule, 8),
}

/** wrongSite judges what was typed; of a site that exists, only what may be empty can be emptied. */
export const wrongSite = (before?: Draft) => (draft: Draft) => ({ ...wrongs('SiteNewBody', draft, rules), ...(before && emptied(draft, before, ['ca_certificate', 'allowed_networks'])) })
