import type { QueryClient } from '@tanstack/react-query'
import { api, asRefusal, got, type Schemas } from '../../api/client'
import { largestPage, readAll } from '../../api/readall'
import { inCommas } from '../allocation/queries'
import type { Counted } from './capacity'
import { chargedOf } from './forecast'
import type { Terms } from './terms'
import { spanOf } from './usage'

/** Scope is whose money it is: all tenants', one tenant's, or one project's. */
export type Scope = { orgId?: string; projectId?: string }

type By = Schemas['StatementUsageView']['by']

const readEvery = 60_000

/** usageQuery is what was used in a month and what that costs; of this month, until now. */
export const usageQuery = ({ orgId, projectId }: Scope, month: string, thisMonth: boolean, by: By) => ({
  queryKey: ['usage', projectId ?? orgId ?? 'all', month, by],
  queryFn: () => {
    const { from, to } = spanOf(month)
    const query = { from, to: thisMonth ? undefined : to, by }
    if (projectId) return got(api.GET('/api/v1/projects/{project_id}/usage', { params: { path: { project_id: projectId }, query }, querySerializer: inCommas }))
    if (orgId) return got(api.GET('/api/v1/tenants/{org_id}/usage', { params: { path: { org_id: orgId }, query }, querySerializer: inCommas }))
    return got(api.GET('/api/v1/admin/usage', { params: { query }, querySerializer: inCommas }))
  },
  refetchInterval: thisMonth ? readEvery : (false as const),
})

/** termsQuery is what was agreed for an allocation; only a list that it follows changes. null: nobody recorded it, and nothing is charged. */
export const termsQuery = (a: Pick<Schemas['AllocationView'], 'project_id' | 'allocation_id'>) => ({
  queryKey: ['terms', a.allocation_id],
  queryFn: () => orNull('allocation_terms_not_found', got(api.GET('/api/v1/projects/{project_id}/allocations/{allocation_id}/terms', { params: { path: { project_id: a.project_id, allocation_id: a.allocation_id } } }))),
  staleTime: (query: { state: { data?: Schemas['AccountTermsView'] | null } }) => (query.state.data?.pricing === 'follows_list' ? readEvery : Infinity),
})

/** accountQuery is the billing account of a tenant; null: it has none. */
export const accountQuery = (orgId: string) => ({
  queryKey: ['billing-accounts', orgId],
  queryFn: () => orNull('billing_account_missing', got(api.GET('/api/v1/tenants/{org_id}/billing-account', { params: { path: { org_id: orgId } } }))),
})

// What goes down is read so often that the eye can follow it.
const readSoon = 5_000

/** balanceQuery is what a tenant with an account has left. While somebody looks at it, it is read as often as it changes. */
export const balanceQuery = (orgId: string) => ({
  queryKey: ['balances', orgId],
  queryFn: () => got(api.GET('/api/v1/tenants/{org_id}/balance', { params: { path: { org_id: orgId } } })),
  refetchInterval: ({ state }: { state: { data?: Schemas['BalanceView'] } }) => (state.data && state.data.burn_minor_per_hour > 0 ? readSoon : readEvery),
})

/** budgetQuery is what a project means to spend, and how far it has come; null: it has no budget. */
export const budgetQuery = (projectId: string) => ({
  queryKey: ['budgets', 'of', projectId],
  queryFn: () => orNull('budget_not_found', got(api.GET('/api/v1/projects/{project_id}/budget', { params: { path: { project_id: projectId } } }))),
  refetchInterval: readEvery,
})

/** statementQuery is a month as it was frozen, which never changes. */
export const statementQuery = (orgId: string, statementId: string) => ({
  queryKey: ['statements', orgId, statementId],
  queryFn: () => got(api.GET('/api/v1/tenants/{org_id}/statements/{statement_id}', { params: { path: { org_id: orgId, statement_id: statementId } } })),
  staleTime: Infinity,
})

/** tenantsQuery is the tenants that whoever is signed in sees. */
export const tenantsQuery = { queryKey: ['tenants', 'all'], queryFn: () => readAll((cursor) => got(api.GET('/api/v1/tenants', { params: { query: { cursor, page_size: largestPage } } }))) }

// A second of every allocation that lasts is in it, and no part of another one.
const justNow = 1_000

/**
 * rentedNowQuery is how many units of each SKU tenants have, by the clock of the control plane: that which it had when it
 * was last heard, and what has passed since. A step of the browser's clock is no such time.
 */
export const rentedNowQuery = (heard: { at: string; when: number }) => ({
  queryKey: ['usage', 'rented'],
  queryFn: async () => {
    const now = Date.parse(heard.at) + Math.min(Math.max(0, Date.now() - heard.when), readEvery)
    const { lines } = await got(api.GET('/api/v1/admin/usage', { params: { query: { from: new Date(now - justNow).toISOString(), to: new Date(now).toISOString(), by: ['sku'] } } }))
    const units = new Map<string, number>()
    for (const l of lines) units.set(l.sku ?? '', (units.get(l.sku ?? '') ?? 0) + l.unit_seconds / (justNow / 1000))
    return units
  },
  staleTime: readEvery,
  refetchInterval: readEvery,
})

/** fleetOfQuery is the nodes of a SKU by state: all, the dirty ones, and those that are clean and held. */
export const fleetOfQuery = (sku: string) => ({
  queryKey: ['fleet', 'of', sku],
  queryFn: async (): Promise<Counted> => {
    const states = async (narrower: { tainted?: 'true' | 'false'; held?: 'true' }) => (await got(api.GET('/api/v1/admin/fleet', { params: { query: { sku, ...narrower } } }))).by_status
    const [all, dirty, held] = await Promise.all([states({}), states({ tainted: 'true' }), states({ tainted: 'false', held: 'true' })])
    return { all, dirty, held }
  },
  staleTime: readEvery,
  refetchInterval: readEvery,
})

/** Running is something that is charged now, with what was agreed for it. */
export type Running = { allocation: Schemas['AllocationView']; terms: Terms }

// More than these are not asked for one by one.
const most = 500
const atOnce = 8

/** runningQuery is what is charged now in a project, or in all projects of a tenant, with what was agreed for each. */
export const runningQuery = ({ orgId = '', projectId }: Scope, queries: QueryClient) => ({
  queryKey: ['allocations', 'running', projectId ?? orgId],
  queryFn: async (): Promise<{ running: Running[]; left: number }> => {
    const projects = projectId ? [projectId] : (await readAll((cursor) => got(api.GET('/api/v1/tenants/{org_id}/projects', { params: { path: { org_id: orgId }, query: { cursor, page_size: largestPage } } })))).rows.map((p) => p.project_id)
    const active = (await inTurns(projects, activeIn)).flat()
    const some = active.slice(0, most)
    const agreed = await inTurns(some, (a) => queries.query(termsQuery(a)))
    const running = some.flatMap((allocation, i) => {
      const terms = agreed[i]
      return terms ? [{ allocation, terms }] : []
    })
    return { running, left: active.length - some.length }
  },
  refetchInterval: readEvery,
})

/** keptQuery is the reservations that run and are charged, of a project or of a tenant with all of its projects. */
export const keptQuery = ({ orgId, projectId }: Scope) => ({
  queryKey: ['reservations', 'charged', projectId ?? orgId],
  queryFn: async () => chargedOf((await readAll((cursor) => got(api.GET('/api/v1/reservations', { params: { query: { org_id: projectId ? undefined : orgId, project_id: projectId, state: ['active'], cursor, page_size: largestPage } }, querySerializer: inCommas })))).rows, projectId),
  refetchInterval: readEvery,
})

const activeIn = async (project_id: string) =>
  (await readAll((cursor) => got(api.GET('/api/v1/projects/{project_id}/allocations', { params: { path: { project_id }, query: { status: ['active'], cursor, page_size: largestPage } }, querySerializer: inCommas })))).rows

/** inTurns asks for many things, a few at once. */
async function inTurns<T, R>(of: T[], ask: (one: T) => Promise<R>): Promise<R[]> {
  const out: R[] = []
  for (let i = 0; i < of.length; i += atOnce) out.push(...(await Promise.all(of.slice(i, i + atOnce).map(ask))))
  return out
}

async function orNull<T>(code: string, answer: Promise<T>): Promise<T | null> {
  try {
    return await answer
  } catch (error) {
    if (asRefusal(error).problem.code === code) return null
    throw error
  }
}
