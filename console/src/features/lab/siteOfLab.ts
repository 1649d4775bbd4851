import { api, got, type Schemas } from '../../api/client'
import { readAll } from '../../api/readall'
import { allSitesQuery, defaultProfile, ifMatch, type Site } from '../site/siteQueries'
import { sameAddress, type Lab } from './lab'

/** One step of making the demo site. */
export type Step = { key: 'site' | 'credentials' | 'profile' | 'probe'; title: string; state: 'waiting' | 'running' | 'done' | 'failed'; said?: string }

export const firstSteps: Step[] = [
  { key: 'site', title: 'Create the site', state: 'waiting' },
  { key: 'credentials', title: 'Write its credentials', state: 'waiting' },
  { key: 'profile', title: 'Set the image of its default profile', state: 'waiting' },
  { key: 'probe', title: 'Check that it is ready for work', state: 'waiting' },
]

/** advanced is the steps after one of them came to something. */
export function advanced(steps: Step[], key: Step['key'], state: Step['state'], said?: string): Step[] {
  return steps.map((s) => (s.key === key ? { ...s, state, said } : s))
}

/** siteOfLab is the site that stands for the lab: the one at its address, or the one with its name. */
export function siteOfLab(sites: Site[], lab: Lab): Site | undefined {
  return sites.find((s) => sameAddress(s.api_base_url, lab.maas_url)) ?? sites.find((s) => s.name === lab.name)
}

/** newSite is the lab in the words in which a site is created. */
export function newSite(lab: Lab): Schemas['SiteNewBody'] {
  return {
    name: lab.name,
    region_code: lab.region_code,
    api_base_url: lab.maas_url,
    pxe_iface: lab.pxe_iface,
    pxe_vlan_vid: 0,
    node_pxe_iface: lab.node_pxe_iface,
    deploy_user: lab.deploy_user,
    deploy_ssh_iface: lab.deploy_ssh_iface,
    max_parallel: lab.max_parallel,
  }
}

export type Made = { site: Site; probe: Schemas['SiteProbeView'] }

/**
 * makeDemoSite brings the site of the lab into being, step by step. What is there
 * already is brought up to date, so that it can be run again after half of it failed.
 */
export async function makeDemoSite(lab: Lab, report: (key: Step['key'], state: Step['state'], said?: string) => void): Promise<Made> {
  const step = async <T>(key: Step['key'], work: () => Promise<[T, string]>): Promise<T> => {
    report(key, 'running')
    try {
      const [result, said] = await work()
      report(key, 'done', said)
      return result
    } catch (error) {
      report(key, 'failed')
      throw error
    }
  }
  const site = await step('site', () => theSite(lab))
  const path = { site_id: site.site_id }
  await step('credentials', async () => {
    await got(api.POST('/api/v1/admin/maas-sites/{site_id}/credentials', { params: { path }, body: lab.credentials }))
    return [undefined, 'MAAS accepts the token.']
  })
  await step('profile', () => theProfile(lab, site))
  const probe = await step('probe', async () => {
    const found = await got(api.POST('/api/v1/admin/maas-sites/{site_id}/probe', { params: { path } }))
    return [found, found.ok ? 'All checks passed.' : 'Some checks need your attention.']
  })
  return { site, probe }
}

async function theSite(lab: Lab): Promise<[Site, string]> {
  const there = siteOfLab(await allSitesQuery.queryFn(), lab)
  if (!there) return [await got(api.POST('/api/v1/admin/maas-sites', { body: newSite(lab) })), `Site ${lab.name} is created.`]
  // A lab that was started again may be elsewhere.
  if (sameAddress(there.api_base_url, lab.maas_url) && there.deploy_user === lab.deploy_user && there.status === 'active') return [there, `Site ${there.name} was there already.`]
  const body = { api_base_url: lab.maas_url, deploy_user: lab.deploy_user, status: 'active' as const }
  const changed = await got(api.PATCH('/api/v1/admin/maas-sites/{site_id}', { params: { path: { site_id: there.site_id }, header: ifMatch(there) }, body }))
  return [changed, `Site ${there.name} was there already, and is brought up to date.`]
}

async function theProfile(lab: Lab, site: Site): Promise<[undefined, string]> {
  const path = { site_id: site.site_id }
  const { rows: profiles } = await readAll((cursor) => got(api.GET('/api/v1/admin/maas-sites/{site_id}/profiles', { params: { path, query: { cursor } } })))
  const usual = profiles.find((p) => p.name === defaultProfile)
  if (!usual) throw new Error(`The site ${site.name} has no profile ${defaultProfile}.`)
  if (usual.distro_series === lab.image && usual.batch_max_parallel === lab.max_parallel) return [undefined, `It deploys ${lab.image} already.`]
  const body = { distro_series: lab.image, batch_max_parallel: lab.max_parallel }
  await got(api.PATCH('/api/v1/admin/maas-sites/{site_id}/profiles/{profile_id}', { params: { path: { ...path, profile_id: usual.profile_id }, header: ifMatch(usual) }, body }))
  return [undefined, `It deploys ${lab.image}.`]
}
