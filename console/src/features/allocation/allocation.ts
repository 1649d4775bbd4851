import { enums } from '../../api/gen/enums'
import type { Schemas } from '../../api/client'

export type Allocation = Schemas['AllocationView']
export type Receipt = Schemas['AllocationReceiptView']
export type Announced = Schemas['AllocationAnnouncedView']

/** states are those that an allocation can be in, as a filter offers them. */
export const states = enums['list-allocations.status']

/** mayEnd says whether an allocation can be given back, or cleaned again. */
export const mayEnd = (a: Pick<Allocation, 'status'>) => a.status !== 'released' && a.status !== 'failed' && a.status !== 'releasing'

/** isOver says whether an allocation belongs to the past. */
export const isOver = (a: Pick<Allocation, 'status'>) => a.status === 'released' || a.status === 'failed'

/** current is the states of what somebody has now. */
export const current = states.filter((status) => !isOver({ status }))

/** called is what people call an allocation. */
export const called = (a: Pick<Allocation, 'name' | 'hostname'>) => a.name || a.hostname

/** hourly is what an hour costs, in minor units: a price is of one GPU, or of a machine without. */
export const hourly = (priceMinor: number, gpus: number, count = 1) => priceMinor * Math.max(gpus, 1) * count

/** whyNot lists what takes nodes out, in words. */
export const whyNot = (c: Pick<Schemas['AllocationCapacity'], 'filters'>) => c.filters.filter((f) => f.before > f.after).map((f) => `${f.before - f.after} ${f.text}`)

/** ssh is the command that leads to the node. */
export const ssh = (a: Pick<Allocation, 'username' | 'host' | 'port'>) => (a.host ? `ssh${a.port && a.port !== 22 ? ` -p ${a.port}` : ''} ${a.username}@${a.host}` : undefined)

/** momentWords says what a receipt is about. */
export const momentWords: Record<Receipt['moment'], string> = {
  handover: 'The node was clean before you got it',
  release: 'Your data was removed after you gave it back',
}

/** receiptFile is what the file of a receipt is called when it is kept. */
export const receiptFile = (a: Pick<Allocation, 'hostname'>, r: Pick<Receipt, 'moment'>) => `${a.hostname.replace(/[^A-Za-z0-9.-]/g, '_')}-${r.moment}.json`

/** lifeOf reads hours as seconds; empty is never, and what cannot be is wrong. */
export function lifeOf(hours: string): { seconds?: number; wrong?: string } {
  if (hours.trim() === '') return {}
  const seconds = Math.round(Number(hours) * 3600)
  return seconds >= 60 && seconds <= 31_622_400 ? { seconds } : { wrong: 'A number of hours, at most a year (8784).' }
}

/** byWhom names who did something: people by their names, all else is the control plane to a tenant. */
export const byWhom = (m: Pick<Schemas['AllocationMomentView'], 'actor_kind' | 'actor'>) => (m.actor_kind === 'user' || m.actor_kind === 'service_account' ? m.actor : 'control plane')

const kindWords: Record<Announced['kind'], string> = { release: 'The allocation ends', reboot: 'The node restarts', pause: 'The node is away for a while' }
const standingWords: Record<Announced['status'], string> = { announced: '', consented: 'You agreed.', declined: 'You declined.', under_way: 'It is being done now.' }

/** announced says what maintenance does to an allocation and how its tenant answered; the time follows. */
export const announced = (m: Pick<Announced, 'kind' | 'status' | 'consent_asked'>) => `${m.status === 'announced' && m.consent_asked ? 'You are asked to agree.' : standingWords[m.status]} ${kindWords[m.kind]}`.trim()

/** mayAgree says whether a tenant can agree to maintenance, or to begin it now. */
export const mayAgree = (m: Pick<Announced, 'status'>) => m.status !== 'under_way'

/** mayDecline says whether a tenant can decline it: only where consent is asked for. */
export const mayDecline = (m: Pick<Announced, 'status' | 'consent_asked'>) => m.consent_asked && (m.status === 'announced' || m.status === 'consented')

/** keysChanged is what has to be sent so that the chosen keys open an allocation, and no others. */
export const keysChanged = (before: string[], chosen: string[]) => ({ add: chosen.filter((id) => !before.includes(id)), remove: before.filter((id) => !chosen.includes(id)) })
