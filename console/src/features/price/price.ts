import type { Schemas } from '../../api/client'
import type { Tone } from '../../ui/tone'

export type Price = Schemas['PriceView']

type Times = Pick<Price, 'in_force' | 'valid_from'>

/** stands says where a price is in its life: one that has begun is never changed. */
export function stands(p: Times, now: number): { word: string; tone: Tone } {
  if (p.in_force) return { word: 'in force', tone: 'ok' }
  return Date.parse(p.valid_from) > now ? { word: 'upcoming', tone: 'info' } : { word: 'ended', tone: 'idle' }
}

/** meterWords says what a price is of; replicas of the previous release know one kind only. */
export const meterWords = (meter: Price['meter'] | undefined) => (meter === 'reserved' ? 'reserved, unused' : 'rented')

/** mayWithdraw says whether a price can be taken back: as long as it has not begun. */
export const mayWithdraw = (p: Times, now: number) => !p.in_force && Date.parse(p.valid_from) > now

/** beginOf reads the time of a field, in the time zone of the browser; empty is now, and the past is wrong. */
export function beginOf(text: string, now: number): { at?: string; wrong?: string } {
  if (text === '') return {}
  const at = Date.parse(text)
  if (Number.isNaN(at)) return { wrong: 'Enter a day and a time.' }
  return at > now ? { at: new Date(at).toISOString() } : { wrong: 'Enter a time in the future, or leave this empty to begin now.' }
}
