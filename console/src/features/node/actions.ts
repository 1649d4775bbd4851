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

const modes: { mode: Mode; hint: string; from: Status[]; maas?: boolean }[] = [
  { mode: 'soft_reset', hint: 'Clean it for the next tenant.', from: serving },
  { mode: 'storage_cleanup', hint: 'Remove what tenants left on its storage.', from: serving },
  { mode: 'reimage', hint: 'Erase it and install it anew; it keeps its id.', from: [...serving, 'draining', 'retired'], maas: true },
  { mode: 'drain', hint: 'Let tenants go and put it aside as it is.', from: [...serving, 'draining'] },
  { mode: 'retire', hint: 'Clean it and put it aside.', from: [...serving, 'draining'] },
  { mode: 'reactivate', hint: 'Bring it back into service.', from: ['retired'] },
  { mode: 'remove', hint: 'Take it out of the inventory.', from: ['retired', 'removing', 'bootstrap_issued', 'enrolling'] },
  { mode: 'full_decommission', hint: 'Release its machine and take it out for good.', from: [...serving, 'draining', 'retired'] },
]

/** turnovers are the modes of turnover that a node in its state can be planned for. */
export function turnovers(node: Pick<Node, 'status' | 'onboarding_mode'>): { mode: Mode; hint: string }[] {
  return modes.filter((m) => m.from.includes(node.status) && (!m.maas || node.onboarding_mode === 'maas')).map(({ mode, hint }) => ({ mode, hint }))
}
