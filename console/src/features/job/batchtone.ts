import type { Tone } from '../../ui/tone'
import type { BatchState } from './job'

const tones: Record<BatchState, Tone> = { running: 'info', paused: 'warn', halted: 'bad', cancelled: 'idle', settled: 'ok' }

/** batchTone is how a batch stands, at a glance: one that has ended, but not for those that are parked, waits for somebody. */
export function batchTone(state: BatchState, parked: number): Tone {
  return parked > 0 && (state === 'settled' || state === 'cancelled') ? 'bad' : tones[state]
}
