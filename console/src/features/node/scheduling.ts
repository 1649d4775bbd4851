import type { Schemas } from '../../api/client'
import { jobNamed, jobWord, type NamedJob } from '../../api/jobs'
import { statesOf } from '../../api/states'
import { exact } from '../../ui/time'
import { words } from '../../ui/tone'

export type Node = Schemas['NodeView']
export type Status = Node['status']

/** A reason why nothing new is placed on a node, and the job behind it where there is one. */
export type Hindrance = { text: string; job?: NamedJob }

const states = statesOf('node')

export type Hold = Schemas['NodeHoldView']

type Judged = Pick<Node, 'status' | 'schedulable' | 'hold_reason' | 'held_by' | 'tainted' | 'holds'>

/** liftable are the holds that an operator may lift: the others end by themselves. */
export function liftable(node: Pick<Node, 'holds'>): Hold[] {
  return (node.holds ?? []).filter((h) => h.kind !== 'operation' && h.kind !== 'unclean')
}

function told(h: Hold): string {
  const by = h.by_name || h.by
  return `Held (${words(h.kind)}): ${h.reason}${h.since ? `, since ${exact(h.since)}` : ''}${by ? `, by ${by}` : ''}`
}

/** hindrances says why a node is not schedulable; none when it is. */
export function hindrances(node: Judged): Hindrance[] {
  if (node.schedulable) return []
  const out: Hindrance[] = []
  const state = states.find((s) => s.name === node.status)
  if (state && state.tone !== 'ok') out.push({ text: `It is ${words(node.status)}: ${state.meaning}.` })
  const holds = (node.holds ?? []).filter((h) => h.kind !== 'operation')
  for (const h of holds) out.push({ text: told(h) })
  if (node.hold_reason && holds.length === 0) out.push({ text: `Held: ${node.hold_reason}` })
  if (node.held_by) {
    const job = jobNamed(node.held_by, ' ')
    out.push({ text: `In use by ${job ? `${jobWord(job.kind)} ${job.id}` : node.held_by}`, job })
  }
  if (out.length === 0) out.push({ text: 'The control plane gives no reason.' })
  return out
}

/** inBrief is the same in a few words, for a row of a table. */
export function inBrief(node: Judged): string {
  if (node.schedulable) return 'schedulable'
  if (node.status === 'deleted') return 'out of the inventory'
  if (node.hold_reason) return `held: ${node.hold_reason}`
  const job = jobNamed(node.held_by, ' ')
  if (node.held_by) return job ? `in ${jobWord(job.kind)}` : `held by ${node.held_by}`
  return 'not schedulable'
}
