import { useQuery } from '@tanstack/react-query'
import { api, got, type Schemas } from '../../api/client'
import { useMay } from '../../app/session'
import { allSitesQuery } from '../site/siteQueries'
import { readAll, largestPage } from '../../api/readall'

const noSites: Schemas['SiteView'][] = []

/** useSites is all sites, for names and choices; empty for those who may not see them. */
export function useSites() {
  const may = useMay()
  const query = useQuery({ ...allSitesQuery, enabled: may('site:read'), staleTime: 30_000 })
  return { sites: query.data ?? noSites, ready: !query.isLoading, error: query.error, retry: () => void query.refetch() }
}

/** useSiteName tells the name of a site; those who may not see sites are told its id. */
export function useSiteName(): (siteId: string) => string {
  const { sites } = useSites()
  return (siteId) => sites.find((s) => s.site_id === siteId)?.name ?? siteId
}

export function useSkus() {
  const may = useMay()
  const query = useQuery({
    queryKey: ['skus', 'all'],
    queryFn: () => readAll((cursor) => got(api.GET('/api/v1/admin/skus', { params: { query: { cursor, page_size: largestPage } } }))),
    enabled: may('sku:read'),
    staleTime: 30_000,
  })
  return { skus: query.data?.rows ?? [], ready: !query.isLoading, error: query.error }
}

export function useProfiles(siteId: string) {
  const may = useMay()
  const query = useQuery({
    queryKey: ['sites', siteId, 'profiles', 'all'],
    queryFn: () => readAll((cursor) => got(api.GET('/api/v1/admin/maas-sites/{site_id}/profiles', { params: { path: { site_id: siteId }, query: { cursor, page_size: largestPage } } }))),
    enabled: may('site:read') && siteId !== '',
    staleTime: 30_000,
  })
  return { profiles: query.data?.rows ?? [], ready: !query.isLoading }
}

/** useTemporalUI is where the web interface of Temporal is, if there is one. */
export function useTemporalUI(): string | undefined {
  const may = useMay()
  const query = useQuery({ queryKey: ['system', 'links'], queryFn: () => got(api.GET('/api/v1/admin/system')), enabled: may('system:read'), staleTime: 300_000 })
  return query.data?.links.temporal_ui
}
