import { api, got, type Schemas } from '../../api/client'
import { readAll } from '../../api/readall'

export type Site = Schemas['SiteView']
export type Profile = Schemas['SiteProfileView']

/** The profile that every site has, and that is meant when a request names none. */
export const defaultProfile = 'default'

/** ifMatch names the version that a change is based on, as the entity tag does. */
export const ifMatch = (of: { version: number }) => ({ 'If-Match': `"${of.version}"` })

export const sitesPage = (cursor: string | undefined, status?: Site['status']) => got(api.GET('/api/v1/admin/maas-sites', { params: { query: { cursor, status, page_size: 200 } } }))

/** allSitesQuery is every site, for choosing one. */
export const allSitesQuery = { queryKey: ['sites', 'all'], queryFn: async () => (await readAll((cursor) => sitesPage(cursor))).rows }

export const siteQuery = (siteId: string) => ({
  queryKey: ['sites', siteId],
  queryFn: () => got(api.GET('/api/v1/admin/maas-sites/{site_id}', { params: { path: { site_id: siteId } } })),
})

/** profilesQuery is every profile of a site, the default one first. */
export const profilesQuery = (siteId: string) => ({
  queryKey: ['sites', siteId, 'profiles'],
  queryFn: async () => {
    const { rows: all } = await readAll((cursor) => got(api.GET('/api/v1/admin/maas-sites/{site_id}/profiles', { params: { path: { site_id: siteId }, query: { cursor, page_size: 200 } } })))
    return all.sort((a, b) => Number(b.name === defaultProfile) - Number(a.name === defaultProfile) || a.name.localeCompare(b.name))
  },
})

const probedAs = (siteId: string) => `check of site ${siteId}`

/** probed is what the last check in this tab found, also one before the page was loaded anew. */
function probed(siteId: string): { at: number; found: Schemas['SiteProbeView'] } | undefined {
  const text = sessionStorage.getItem(probedAs(siteId))
  return text ? (JSON.parse(text) as { at: number; found: Schemas['SiteProbeView'] }) : undefined
}

/** probeQuery looks whether a site is ready for work. It is asked for, never read anew by itself. */
export const probeQuery = (siteId: string) => ({
  queryKey: ['site-probe', siteId],
  queryFn: async () => {
    const found = await got(api.POST('/api/v1/admin/maas-sites/{site_id}/probe', { params: { path: { site_id: siteId } } }))
    sessionStorage.setItem(probedAs(siteId), JSON.stringify({ at: Date.now(), found }))
    return found
  },
  initialData: () => probed(siteId)?.found,
  initialDataUpdatedAt: () => probed(siteId)?.at,
  enabled: false,
  retry: false,
})
