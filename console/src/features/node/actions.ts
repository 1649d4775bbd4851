import type { Node, Status } from './scheduling'

/** What an operator may ask of a node. Whether it happens, the control plane decides. */
export type Action = 'hold' | 'unhold' | 'quarantine' | 'return_to_service' | 'task' | 'bootstrap' | 'recovery' | 'revoke'

type Judged = Pick<Node, 'status' | 'hold_reason' | 'held_by' | 'agent'>

const quarantinable: Status[] = ['enrolling', 'active', 'offline']
const gone: Status[] = ['retired', 'removing', 'deleted']

/** actionsOf are those that the state of a node allows, as its lifecycle has it. */
export function actionsOf(node: Judged): Action[] {
  const out: Action[] = []
  const owned = node.held_by !== '' || node.status === 'draining' || node.status === 'removing'
  if (node.status === 'deleted') return out
  out.push(node.hold_reason ? 'unhold' : 'hold')
  if (!owned && quarantinable.includes(node.status)) out.push('quarantine')
  if (!owned && node.status === 'quarantined') out.push('return_to_service')
  if (!gone.includes(node.status) && node.agent.agent_instance !== '') out.push('task')
  if (node.status === 'bootstrap_issued' || node.status === 'enrolling') out.push('bootstrap')
  if (!gone.includes(node.status) && node.agent.agent_instance !== '') out.push('recovery')
  if (node.agent.certificate_not_after) out.push('revoke')
  return out
}

export type Mode = 'soft_reset' | 'reimage' | 'full_decommission' | 'storage_cleanup' | 'drain' | 'retire' | 'reactivate' | 'remove'

const serving: Status[] = ['active', 'offline', 'quarantined']

const modes: { mode: Mode; title: string; from: Status[]; maas?: boolean }[] = [
  { mode: 'soft_reset', title: 'Reset and return to service', from: serving },
  { mode: 'storage_cleanup', title: 'Clean storage', from: serving },
  { mode: 'reimage', title: 'Reimage', from: [...serving, 'draining', 'retired'], maas: true },
  { mode: 'drain', title: 'Drain', from: [...serving, 'draining'] },
  { mode: 'retire', title: 'Clean and retire', from: [...serving, 'draining'] },
  { mode: 'reactivate', title: 'Reactivate', from: ['retired'] },
  { mode: 'remove', title: 'Remove from the inventory', from: ['retired', 'removing', 'bootstrap_issued', 'enrolling'] },
  { mode: 'full_decommission', title: 'Decommission for good', from: [...serving, 'draining', 'retired'] },
]

/** turnovers are the modes of turnover that a node in its state can be planned for. */
export function turnovers(node: Pick<Node, 'status' | 'onboarding_mode'>): { mode: Mode; title: string }[] {
  return modes.filter((m) => m.from.includes(node.status) && (!m.maas || node.onboarding_mode === 'maas')).map(({ mode, title }) => ({ mode, title }))
}
