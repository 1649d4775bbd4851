import { enums } from '../../api/gen/enums'
import type { Schemas } from '../../api/client'
import type { Me } from '../../app/session'
import type { Tone } from '../../ui/tone'
import { mayIn } from '../access/roles'

export type Run = Schemas['OperationView']
export type Target = Schemas['OperationTargetView']
export type Step = Schemas['OperationStepView']
export type Line = Schemas['OperationLineView']
export type Plan = Schemas['OperationPlanView']

/** states are those that a run can be in, as a filter offers them. */
export const states = enums['list-operations.status']

/** hasEnded says whether nothing more happens by itself. */
export const hasEnded = (r: Pick<Run, 'status'>) => r.status === 'succeeded' || r.status === 'failed' || r.status === 'canceled'

/** condition is what holds a run up while it has not ended. */
export function condition(r: Pick<Run, 'status' | 'paused' | 'cancel_requested' | 'approval'>): { words: string; tone: Tone } | undefined {
  if (hasEnded(r)) return undefined
  if (r.cancel_requested) return { words: 'stopping', tone: 'warn' }
  if (r.approval?.awaited) return { words: 'awaits approval', tone: 'warn' }
  return r.paused ? { words: 'paused', tone: 'warn' } : undefined
}

/** countsWords says how the targets of a run stand, the worst first. */
export function countsWords({ total, ...counts }: Run['targets']): string {
  const order = ['failed', 'skipped', 'canceled', 'running', 'waiting', 'succeeded'] as const
  const said = order.filter((s) => counts[s] > 0).map((s) => (counts[s] === total && total > 1 ? `all ${total} ${s}` : `${counts[s]} ${s}`))
  return said.join(', ') || 'no nodes'
}

export type Verb = 'pause' | 'unpause' | 'cancel' | 'retry' | 'again' | 'approve'

/** verbsOf is what the state of a run allows, whoever asks. */
export function verbsOf(r: Pick<Run, 'status' | 'paused' | 'cancel_requested' | 'approval' | 'targets'>): Verb[] {
  const ended = hasEnded(r)
  const left = r.targets.failed + r.targets.canceled + r.targets.skipped
  const can: Record<Verb, boolean> = {
    approve: !ended && !r.cancel_requested && r.approval?.awaited === true,
    unpause: !ended && r.paused && !r.cancel_requested,
    retry: left > 0 && (r.status === 'failed' || r.status === 'canceled' || (r.status === 'running' && r.paused)),
    pause: !ended && !r.paused && !r.cancel_requested,
    cancel: !ended && !r.cancel_requested,
    again: ended,
  }
  return (Object.keys(can) as Verb[]).filter((v) => can[v])
}

/** mayResume says whether one target can go on by itself. */
export const mayResume = (t: Pick<Target, 'status'>) => t.status === 'failed' || t.status === 'canceled' || t.status === 'skipped'

type Owned = Pick<Run, 'org_id' | 'project_id' | 'requested_by'>

/** maySteer says whether somebody may pause, stop, resume or repeat a run. */
export function maySteer(me: Me, r: Owned): boolean {
  if (me.platform_permissions.includes('fleet_operation:run')) return true
  if (!r.project_id || !r.org_id) return false
  const where = { orgId: r.org_id, projectId: r.project_id }
  return mayIn(me, 'operation:run', where) && (r.requested_by === me.id || mayIn(me, 'operation:manage', where))
}

const ranks = ['project_member', 'project_admin', 'tenant_admin', 'operator', 'platform_admin']

/** mayApprove says whether somebody holds the role that a run waits for, or a stronger one. Whoever asked for it does not approve it. */
export function mayApprove(me: Me, r: Owned & Pick<Run, 'approval'>): boolean {
  const role = r.approval?.role
  if (!role || r.requested_by === me.id) return false
  const held: string[] = [me.platform_role, ...me.tenants.filter((t) => t.org_id === r.org_id).map((t) => t.role), ...me.projects.filter((p) => p.project_id === r.project_id).map((p) => p.role)]
  // An operator stands for the platform, and not for a tenant.
  return held.some((h) => ranks.indexOf(h) >= ranks.indexOf(role) && (h !== 'operator' || role === 'operator'))
}

/** allowed is the verbs that a run allows and somebody may use. */
export const allowed = (me: Me, r: Run): Verb[] => verbsOf(r).filter((v) => (v === 'approve' ? mayApprove(me, r) : maySteer(me, r)))

/** mayRunSomewhere says whether somebody may run anything, on the fleet or in a project. */
export const mayRunSomewhere = (me: Me) => me.platform_permissions.includes('fleet_operation:run') || me.permissions.includes('operation:run')

/** share reads how many nodes: a number, or a share such as 20%. Empty leaves it to the control plane. */
export function share(text: string, least: number): { count?: number; percent?: number; wrong?: string } {
  const typed = text.trim()
  if (typed === '') return {}
  const [, number, percent] = /^(\d{1,4})\s*(%)?$/.exec(typed) ?? []
  const value = Number(number)
  if (number === undefined || value < least || value > (percent ? 100 : 1000)) return { wrong: `A number from ${least} to 1000, or a share such as 20%.` }
  return percent ? { percent: value } : { count: value }
}
