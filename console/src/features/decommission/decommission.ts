import { useQuery } from '@tanstack/react-query'
import { api, got, type Schemas } from '../../api/client'
import { actions, named, type Acted, type ActionName, type Job, type Kind, type Stage } from '../job/job'
import { takesCleanup, takesEnd, takesErase, takesInstall, type Choices, type Mode } from './modes'

export type Decommission = Schemas['DecommissionView']
export type DecommissionBatch = Schemas['DecommissionBatchView']

/** The words of turnover. */
export const turnover: Kind = { noun: 'decommission', title: 'Turnover', job: 'Turnover', unit: 'Node' }

/** useModes is every mode with its stages, and how long each takes at a site. */
export function useModes(siteId?: string) {
  const query = useQuery({
    queryKey: ['decommission-stages', siteId ?? ''],
    queryFn: async () => (await got(api.GET('/api/v1/admin/decommission-stages', { params: { query: { site_id: siteId } } }))).items,
    staleTime: 60_000,
    refetchInterval: 60_000, // how long stages typically take is learned while they are watched
  })
  return query.data
}

const none: Stage[] = []

export function useStages(mode: Mode | undefined, siteId?: string): Stage[] {
  return useModes(siteId)?.find((m) => m.mode === mode)?.stages ?? none
}

/** choicesOf is what of the choices a mode takes, of one node or of many. */
export function choicesOf(mode: Mode, c: Choices) {
  return {
    erase: takesErase(mode) ? c.erase : undefined,
    storage_cleanup: takesCleanup(mode) ? c.cleanup : undefined,
    profile_id: (takesInstall(mode) && c.profile) || undefined,
    end_allocation: (takesEnd(mode) && c.tenant === 'end') || undefined,
    under_maintenance: (takesEnd(mode) && c.tenant === 'announced') || undefined,
  }
}

/** plannedOf is what of them a plan depends on. */
export function plannedOf(mode: Mode, c: Choices) {
  const without = takesErase(mode) && c.withoutAgent && c.risk
  return { ...choicesOf(mode, c), ...installedOf(mode, c), ...(without && { without_agent: true, residual_risk: c.risk }) }
}

/** installedOf is what of them is about the machine once it is reinstalled. */
export function installedOf(mode: Mode, c: Choices) {
  return { keep_out_of_service: (takesInstall(mode) && c.keepOut) || undefined, require_hardware_match: (takesInstall(mode) && c.match) || undefined }
}

/** begin asks for an operation on one node. Plain steps of its life have operations of their own. */
export function begin(nodeId: string, mode: Mode, choices: Choices, reason: string, plan_hash: string): Promise<Schemas['DecommissionNewView']> {
  const params = { path: { node_id: nodeId } }
  const { end_allocation, under_maintenance } = choicesOf(mode, choices)
  switch (mode) {
    case 'drain':
      return got(api.POST('/api/v1/admin/nodes/{node_id}/drain', { params, body: { reason, end_allocation, under_maintenance } }))
    case 'retire':
      return got(api.POST('/api/v1/admin/nodes/{node_id}/retire', { params, body: { reason, end_allocation, under_maintenance } }))
    case 'reactivate':
      return got(api.POST('/api/v1/admin/nodes/{node_id}/reactivate', { params, body: { reason } }))
    case 'remove':
      return got(api.POST('/api/v1/admin/nodes/{node_id}/remove', { params, body: { reason } }))
    case 'storage_cleanup':
      return got(api.POST('/api/v1/admin/nodes/{node_id}/storage-cleanup', { params, body: { reason, plan_hash, scope: choices.cleanup === 'none' ? 'local' : choices.cleanup } }))
    case 'soft_reset':
    case 'reimage':
    case 'full_decommission':
      return got(api.POST('/api/v1/admin/nodes/{node_id}/decommission', { params, body: { mode, reason, plan_hash, ...plannedOf(mode, choices) } }))
  }
}

/** recover asks for an action of an operator. */
export function recover(id: string, action: ActionName, reason: string): Promise<unknown> {
  return got(api.POST(`/api/v1/admin/decommissions/{decommission_id}/${actions[action].path}`, { params: { path: { decommission_id: id } }, body: { reason } }))
}

/** recoverMany asks for the same action about many jobs at once. */
export function recoverMany(jobs: Job[], action: ActionName, reason: string): Promise<Acted> {
  return got(api.POST('/api/v1/admin/decommissions/actions', { body: { action, reason, jobs: jobs.map(named) } }))
}

/** explain says how a job stands, and what can be done about it. */
export async function explain(id: string) {
  return (await got(api.GET('/api/v1/admin/decommissions/{decommission_id}', { params: { path: { decommission_id: id } } }))).explanation
}
