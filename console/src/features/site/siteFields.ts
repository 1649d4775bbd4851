import { draftOf, emptied, wrongs, type Draft, type Rule } from './explained'
import { accountRule, certificatesRule, each, ifaceRule, ipRule, maasURLRule, nameRule, networkRule } from './rules'

/** siteFields is everything that somebody says of a site; credentials are written elsewhere. */
export const siteFields = [
  'name',
  'region_code',
  'api_base_url',
  'ca_certificate',
  'allowed_networks',
  'bmc_networks',
  'required_scripts',
  'required_capabilities',
  'pxe_iface',
  'pxe_vlan_vid',
  'node_pxe_iface',
  'deploy_user',
  'deploy_ssh_iface',
  'upstream_dns_servers',
  'max_parallel',
  'hw_sync_http',
]

/** siteDraft is what stands in the form of a site. Nobody can choose that nobody has decided: it stands there as nothing. */
export function siteDraft(site: Record<string, unknown>): Draft {
  const draft = draftOf('SiteNewBody', siteFields, site)
  return draft.hw_sync_http === 'undecided' ? { ...draft, hw_sync_http: '' } : draft
}

/** runsAnything says whether root on machines of the site runs whatever plain HTTP brings. */
export const runsAnything = (draft: Draft) => draft.hw_sync_http === 'accepted' && !/^https:/i.test(String(draft.api_base_url).trim())

/** acceptsAnew says whether saving the form accepts that where it was not so before. */
export const acceptsAnew = (draft: Draft, before: Draft) => runsAnything(draft) && !runsAnything(before)

const rules: Record<string, Rule> = {
  name: nameRule,
  region_code: nameRule,
  api_base_url: maasURLRule,
  ca_certificate: certificatesRule,
  allowed_networks: each(networkRule),
  bmc_networks: each(networkRule),
  pxe_iface: ifaceRule,
  node_pxe_iface: ifaceRule,
  deploy_user: accountRule,
  deploy_ssh_iface: ifaceRule,
  upstream_dns_servers: each(ipRule, 8),
}

/** wrongSite judges what was typed; of a site that exists, only what may be empty can be emptied. */
export const wrongSite = (before?: Draft) => (draft: Draft) => ({ ...wrongs('SiteNewBody', draft, rules), ...(before && emptied(draft, before, ['ca_certificate', 'allowed_networks', 'bmc_networks', 'required_scripts', 'required_capabilities'])) })
