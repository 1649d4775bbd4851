import { modesFrom } from '../../api/gen/enums'
import { nodeIs, nodeMay } from '../../api/states'
import type { Node } from './scheduling'

/** What an operator may ask of a node. Whether it happens, the control plane decides. */
export type Action = 'hold' | 'unhold' | 'quarantine' | 'return_to_service' | 'task' | 'bootstrap' | 'recovery' | 'revoke'

type Judged = Pick<Node, 'status' | 'hold_reason' | 'held_by' | 'agent'>

/** actionsOf are those that the state of a node allows, as its lifecycle has it. */
export function actionsOf(node: Judged): Action[] {
  const out: Action[] = []
  const owned = node.held_by !== '' || nodeIs(node.status, 'owned')
  if (node.status === 'deleted') return out
  out.push('hold')
  if (node.hold_reason) out.push('unhold')
  if (!owned && nodeMay(node.status, 'quarantine')) out.push('quarantine')
  if (!owned && nodeMay(node.status, 'return_to_service')) out.push('return_to_service')
  if (!nodeIs(node.status, 'out') && node.agent.agent_instance !== '') out.push('task')
  if (nodeIs(node.status, 'joining')) out.push('bootstrap')
  if (!nodeIs(node.status, 'out') && node.agent.agent_instance !== '') out.push('recovery')
  if (node.agent.certificate_not_after) out.push('revoke')
  return out
}

export type Mode = keyof typeof modesFrom

const hints: { mode: Mode; hint: string; maas?: boolean }[] = [
  { mode: 'soft_reset', hint: 'Clean it for the next tenant.' },
  { mode: 'storage_cleanup', hint: 'Remove what tenants left on its storage.' },
  { mode: 'reimage', hint: 'Erase and reinstall it; it keeps its id.', maas: true },
  { mode: 'drain', hint: 'Remove the accounts of tenants and take it out of service without cleaning it.' },
  { mode: 'retire', hint: 'Clean it and take it out of service.' },
  { mode: 'reactivate', hint: 'Bring it back into service.' },
  { mode: 'remove', hint: 'Remove it from the inventory.' },
  { mode: 'full_decommission', hint: 'Release its machine and remove the node for good.' },
]

/** turnovers are the modes of turnover that a node in its state can be planned for. */
export function turnovers(node: Pick<Node, 'status' | 'onboarding_mode'>): { mode: Mode; hint: string }[] {
  return hints.filter((m) => (modesFrom[m.mode] as readonly string[]).includes(node.status) && (!m.maas || node.onboarding_mode === 'maas')).map(({ mode, hint }) => ({ mode, hint }))
}
