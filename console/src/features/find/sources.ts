import { useQuery, type UseQueryResult } from '@tanstack/react-query'
import { api, asRefusal, got } from '../../api/client'
import { jobFamilies, type JobFamily } from '../../api/jobs'
import { readAll, largestPage } from '../../api/readall'
import { usePlaces } from '../../app/places'
import { useMay } from '../../app/session'
import { called, current, type Allocation } from '../allocation/allocation'
import { allocationQuery, inCommas } from '../allocation/queries'
import { useProjects, type Project } from '../allocation/projects'
import { allSitesQuery, type Site } from '../site/siteQueries'
import { best, jobHit, kinds, most, nodeHit, wholeId, type Hit } from './hits'

type Group = { kind: (typeof kinds)[number]; hits: Hit[] }

/** Found is what a search has found by now. */
export type Found = {
  groups: Group[]
  /** What is still asked for. */
  waiting: boolean
  /** What could not be looked up, and why. */
  unread: string[]
}

const fresh = 10_000
const patience = 10_000

// Somebody looks at the screen: an answer that takes so long is no suggestion any more.
const within = (signal: AbortSignal) => AbortSignal.any([signal, AbortSignal.timeout(patience)])

const once = { staleTime: fresh, retry: false } as const

const ofProject = (p: Project) => ({
  queryKey: ['allocations', 'current', p.project_id],
  queryFn: async ({ signal }: { signal: AbortSignal }) =>
    (await got(api.GET('/api/v1/projects/{project_id}/allocations', { params: { path: { project_id: p.project_id }, query: { status: current, page_size: largestPage } }, querySerializer: inCommas, signal: within(signal) }))).items,
})

// An id that is of no such job is no failure: it may be of something else.
async function jobsOf(kind: JobFamily, text: string, signal: AbortSignal) {
  if (!wholeId(text)) return (await got(api.GET(`/api/v1/admin/${kind}s`, { params: { query: { hostname: text, page_size: most } }, signal }))).items
  try {
    const job = kind === 'onboarding' ? await got(api.GET('/api/v1/admin/onboardings/{onboarding_id}', { params: { path: { onboarding_id: text } }, signal })) : await got(api.GET('/api/v1/admin/decommissions/{decommission_id}', { params: { path: { decommission_id: text } }, signal }))
    return [job]
  } catch (error) {
    if (asRefusal(error).status === 404) return []
    throw error
  }
}

/** useFound looks for a text among everything that whoever is signed in may see. An empty text finds the pages. */
export function useFound(typed: string): Found {
  const text = typed.trim().toLowerCase()
  const may = useMay()
  const asked = text !== ''
  const pages = usePlaces()
  const { projects } = useProjects()
  const nodes = useQuery({ queryKey: ['fleet', 'found', text], queryFn: ({ signal }) => got(api.GET('/api/v1/admin/fleet/map', { params: { query: { q: text, limit: most } }, signal: within(signal) })), enabled: asked && may('node:read'), ...once })
  const readable = jobFamilies.filter((f) => may(`${f}:read`))
  const jobs = useQuery({
    queryKey: ['jobs', 'found', text],
    queryFn: async ({ signal }) => (await Promise.all(readable.map(async (kind) => (await jobsOf(kind, text, within(signal))).map((job) => ({ kind, job }))))).flat().sort((a, b) => b.job.requested_at.localeCompare(a.job.requested_at)),
    enabled: asked && readable.length > 0,
    ...once,
  })
  const sites = useQuery({ ...allSitesQuery, enabled: asked && may('site:read'), ...once, staleTime: 30_000 })
  const tenants = useQuery({ queryKey: ['tenants', 'all'], queryFn: async ({ signal }) => (await readAll((cursor) => got(api.GET('/api/v1/tenants', { params: { query: { cursor, page_size: largestPage } }, signal: within(signal) })))).rows, enabled: asked, ...once, staleTime: 30_000 })
  const mine = useQuery({ queryKey: ['allocations', 'found', projects.map((p) => p.project_id)], queryFn: async (context) => (await Promise.all(projects.map(async (p) => (await ofProject(p).queryFn(context)).map((of) => ({ of, in: p.name }))))).flat(), enabled: asked && projects.length > 0, ...once })
  const named = useQuery({ ...allocationQuery(text), enabled: wholeId(text), ...once })

  const groups: Group[] = [
    { kind: 'Pages', hits: best(pages, text, (p) => ({ names: [p.title] })).map((p) => ({ key: `page ${p.to}`, title: p.title, detail: p.group, to: p.to })) },
    { kind: 'Nodes', hits: nodesFound(text, nodes.data, sites.data) },
    { kind: 'Jobs', hits: asked ? (jobs.data ?? []).slice(0, most).map(({ kind, job }) => jobHit(kind, job)) : [] },
    { kind: 'Sites', hits: asked ? best(sites.data ?? [], text, (s) => ({ names: [s.name, s.region_code], id: s.site_id })).map((s) => ({ key: `site ${s.site_id}`, title: s.name, detail: s.region_code, to: `/sites/${s.site_id}` })) : [] },
    { kind: 'Tenants', hits: asked ? best(tenants.data ?? [], text, (t) => ({ names: [t.name, t.slug], id: t.org_id })).map((t) => ({ key: `tenant ${t.org_id}`, title: t.name, detail: t.slug, to: `/access/tenants/${t.org_id}` })) : [] },
    { kind: 'Projects', hits: asked ? best(projects, text, (p) => ({ names: [p.name, p.slug], id: p.project_id })).map((p) => ({ key: `project ${p.project_id}`, title: p.name, to: `/access/projects/${p.project_id}` })) : [] },
    { kind: 'Allocations', hits: asked ? allocationsFound(text, mine.data, named.data) : [] },
  ]
  const queries = { Nodes: nodes, Jobs: jobs, Sites: sites, Tenants: tenants, Allocations: mine }
  return {
    groups: groups.filter((g) => g.hits.length > 0),
    waiting: asked && [...Object.values(queries), named].some((q) => q.isLoading),
    unread: asked ? unreadOf(queries) : [],
  }
}

function nodesFound(text: string, found: { nodes: Parameters<typeof nodeHit>[2][]; truncated: boolean } | undefined, sites: Site[] | undefined): Hit[] {
  if (!text || !found) return []
  const hits = found.nodes.map((n) => nodeHit(text, (id) => sites?.find((s) => s.site_id === id)?.name, n))
  if (found.truncated) hits.push({ key: 'nodes', title: `All nodes with “${text}”`, to: '/nodes', search: { q: text } })
  return hits
}

function allocationsFound(text: string, mine: { of: Allocation; in: string }[] | undefined, named: Allocation | undefined): Hit[] {
  const all = [...(mine ?? []), ...(named && !mine?.some((m) => m.of.allocation_id === named.allocation_id) ? [{ of: named, in: '' }] : [])]
  return best(all, text, ({ of: a, in: project }) => ({ names: [a.name, a.hostname, project], id: a.allocation_id })).map(({ of: a, in: project }) => ({
    key: `allocation ${a.allocation_id}`,
    title: called(a),
    detail: [project, a.hostname !== called(a) && a.hostname, a.sku].filter(Boolean).join(' · '),
    to: `/allocations/${a.allocation_id}`,
    state: { of: 'allocation', is: a.status },
  }))
}

const silent = (error: unknown) => error instanceof DOMException && error.name === 'TimeoutError'

/** unreadOf names what could not be looked up, so that nobody takes silence for absence. */
function unreadOf(queries: Record<string, UseQueryResult>): string[] {
  const failed = Object.entries(queries).filter(([, q]) => q.isError)
  const why = (error: unknown) => (silent(error) ? 'The control plane does not answer.' : asRefusal(error).message)
  const said = new Set(failed.map(([, q]) => why(q.error)))
  return [...said].map((text) => `${listed(failed.filter(([, q]) => why(q.error) === text).map(([kind]) => kind.toLowerCase()))} could not be searched. ${text}`)
}

function listed(names: string[]): string {
  const text = names.length > 1 ? `${names.slice(0, -1).join(', ')} and ${names[names.length - 1] ?? ''}` : (names[0] ?? '')
  return text.charAt(0).toUpperCase() + text.slice(1)
}
