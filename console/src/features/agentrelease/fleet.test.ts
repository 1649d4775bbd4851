import { expect, it } from 'vitest'
import { barsOf } from './fleet'

it('a bar has a part for each channel and drift, and leads to the nodes that it counts', () => {
  const bars = barsOf([
    { version: '1.4.0', channel: 'stable', badge: 'outdated', nodes: 1 },
    { version: '1.4.0', channel: 'stable', badge: 'current', nodes: 3 },
    { version: '', channel: 'unassigned', badge: 'unknown_build', nodes: 2 },
  ])
  expect(bars.map((b) => [b.label, b.nodes])).toEqual([['1.4.0', 4], ['no agent yet', 2]])
  expect(bars[0]?.parts.map((p) => [p.group.badge, p.percent])).toEqual([['current', 75], ['outdated', 25]])
  expect(bars[0]?.parts[1]?.search).toEqual({ agent_version: '1.4.0', agent_channel: 'stable', drift_state: 'version_drift' })
  expect(bars[1]?.parts[0]?.search).toEqual({ agent_channel: 'unassigned', agent: 'unknown_build' })
  expect(bars[1]?.parts[0]?.label).toBe('no agent yet, unassigned, unknown build: 2 nodes')
  expect(barsOf([])).toEqual([])
})
