import type { Schemas } from '../../api/client'
import type { Tone } from '../../ui/tone'

export type Rollout = Schemas['RolloutView']
export type Member = Schemas['RolloutMemberView']
export type Outcome = Member['outcome']
export type Verb = 'pause' | 'resume' | 'approve' | 'abort' | 'back'

export const rolloutsKey = 'agent-rollouts'

const outcomeTones: Partial<Record<string, Tone>> = { updating: 'info', baking: 'info', verified: 'ok', failed: 'bad', returning: 'warn', returned: 'warn' }
export const toneOfOutcome = (o: string): Tone => outcomeTones[o] ?? 'idle'

const statusTones: Record<Rollout['status'], Tone> = { running: 'info', paused: 'warn', returning: 'warn', completed: 'ok', aborted: 'idle' }
export const toneOfStatus = (s: Rollout['status']): Tone => statusTones[s]

export const isOver = (r: Rollout) => r.status === 'completed' || r.status === 'aborted'

/** verbsOf is what may be done to a rollout as it stands. */
export function verbsOf(r: Rollout): Verb[] {
  if (isOver(r)) return []
  if (r.status === 'running') return ['pause', 'abort', 'back']
  if (r.status === 'returning') return r.paused_code === 'going_back' ? [] : ['back']
  return [r.paused_code === 'awaits_approval' ? 'approve' : 'resume', 'abort', 'back']
}

export const waveName = (wave: number) => (wave < 0 ? 'Left alone' : wave === 0 ? 'Canaries' : `Wave ${wave}`)

/** placeWords is how far a rollout has come. */
export const placeWords = (r: Pick<Rollout, 'wave' | 'waves'>) => (r.wave === 0 ? 'Canaries' : `Wave ${r.wave} of ${r.waves - 1}`)

export type Wave<T> = { wave: number; name: string; members: T[] }

/** wavesOf puts nodes into their waves: canaries first, what is left alone last. */
export function wavesOf<T extends { wave: number; hostname: string }>(members: T[]): Wave<T>[] {
  const by = new Map<number, T[]>()
  for (const m of members) by.set(m.wave, [...(by.get(m.wave) ?? []), m])
  const place = (wave: number) => (wave < 0 ? Infinity : wave)
  return [...by.entries()]
    .toSorted(([a], [b]) => place(a) - place(b))
    .map(([wave, of]) => ({ wave, name: waveName(wave), members: of.toSorted((a, b) => a.hostname.localeCompare(b.hostname)) }))
}

/** countWords adds up how far nodes have come: of one wave, or of all. */
export function countWords(counts: Rollout['counts'], wave?: number): string {
  const sums = new Map<string, number>()
  for (const c of counts) if (wave === undefined || c.wave === wave) sums.set(c.outcome, (sums.get(c.outcome) ?? 0) + c.nodes)
  return [...sums].map(([o, n]) => `${n} ${o.replaceAll('_', ' ')}`).join(', ')
}

/** saysOf is a node of a rollout in one line. */
export const saysOf = (m: Member) => `${m.hostname}: ${m.outcome.replaceAll('_', ' ')}${m.detail ? `, ${m.detail}` : ''}`
