import { expect, it } from 'vitest'
import { countWords, verbsOf, wavesOf, type Rollout } from './rollout'

const rollout = (status: Rollout['status'], paused_code = '') => ({ status, paused_code }) as Rollout

it('what may be done to a rollout follows from how it stands', () => {
  expect(verbsOf(rollout('running'))).toEqual(['pause', 'abort', 'back'])
  expect(verbsOf(rollout('paused', 'too_many_failures'))).toEqual(['resume', 'abort', 'back'])
  expect(verbsOf(rollout('paused', 'awaits_approval'))).toEqual(['approve', 'abort', 'back'])
  expect(verbsOf(rollout('returning'))).toEqual(['back'])
  expect(verbsOf(rollout('returning', 'going_back'))).toEqual([])
  expect(verbsOf(rollout('completed'))).toEqual([])
})

it('canaries come first, and what is left alone last', () => {
  const waves = wavesOf([{ wave: -1, hostname: 'x' }, { wave: 2, hostname: 'c' }, { wave: 0, hostname: 'b' }, { wave: 0, hostname: 'a' }])
  expect(waves.map((w) => [w.name, w.members.map((m) => m.hostname).join('')])).toEqual([['Canaries', 'ab'], ['Wave 2', 'c'], ['Left alone', 'x']])
})

it('nodes are added up over waves, or in one', () => {
  const counts = [{ wave: 0, outcome: 'failed', nodes: 1 }, { wave: 1, outcome: 'skipped_offline', nodes: 2 }, { wave: 2, outcome: 'skipped_offline', nodes: 1 }] as Rollout['counts']
  expect(countWords(counts)).toBe('1 failed, 3 skipped offline')
  expect(countWords(counts, 1)).toBe('2 skipped offline')
})
