import type { Schemas } from '../../api/client'
import { jobNamed, type NamedJob } from '../../api/jobs'
import { statesOf } from '../../api/states'
import { words } from '../../ui/tone'

export type Node = Schemas['NodeView']
export type Status = Node['status']

/** A reason why nothing new is placed on a node, and the job behind it where there is one. */
export type Hindrance = { text: string; job?: NamedJob }

const states = statesOf('node')

type Judged = Pick<Node, 'status' | 'schedulable' | 'hold_reason' | 'held_by' | 'tainted'>

/** hindrances says why a node is not schedulable; none when it is. */
export function hindrances(node: Judged): Hindrance[] {
  if (node.schedulable) return []
  const out: Hindrance[] = []
  const state = states.find((s) => s.name === node.status)
  if (state && state.tone !== 'ok') out.push({ text: `It is ${words(node.status)}: ${state.meaning}.` })
  if (node.hold_reason) out.push({ text: `Held: ${node.hold_reason}` })
  if (node.held_by) out.push({ text: `Kept by ${node.held_by}`, job: jobNamed(node.held_by, ' ') })
  if (out.length === 0) out.push({ text: 'The control plane has not said why.' })
  return out
}

/** inBrief is the same in a few words, for a row of a table. */
export function inBrief(node: Judged): string {
  if (node.schedulable) return 'schedulable'
  if (node.status === 'deleted') return 'out of the inventory'
  if (node.hold_reason) return `held: ${node.hold_reason}`
  const job = jobNamed(node.held_by, ' ')
  if (node.held_by) return job ? `in ${job.kind}` : `held by ${node.held_by}`
  return 'not schedulable'
}
