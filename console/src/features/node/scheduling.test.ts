import { describe, expect, it } from 'vitest'
import { hindrances, inBrief, liftable } from './scheduling'

const free = { status: 'active', schedulable: true, hold_reason: '', held_by: '', tainted: false } as const

describe('hindrances', () => {
  it('are none for a schedulable node', () => {
    expect(hindrances(free)).toEqual([])
    expect(inBrief(free)).toBe('schedulable')
  })

  it('names the state, the hold and the job, each', () => {
    const node = { ...free, schedulable: false, status: 'offline', hold_reason: 'bad fan', held_by: 'decommission 0af3' } as const
    expect(hindrances(node).map((h) => h.text)).toEqual(['It is offline: expected to exist, but its agent does not answer.', 'Held: bad fan', 'In use by turnover 0af3'])
    expect(hindrances(node)[2]?.job).toEqual({ kind: 'decommission', id: '0af3' })
    expect(inBrief(node)).toBe('held: bad fan')
    expect(inBrief({ ...node, hold_reason: '' })).toBe('in turnover')
  })

  it('names every hold of a node by itself', () => {
    const hold = { hold_id: '1', kind: 'complaint', owner: 'a', reason: 'GPU 3 is slow', by: 'user:1', by_name: 'Ada' } as const
    const node = { ...free, schedulable: false, hold_reason: 'GPU 3 is slow; fan', held_by: 'decommission 0af3', holds: [hold, { ...hold, kind: 'operator', reason: 'fan', by_name: '' }, { ...hold, kind: 'operation' }] } as const
    expect(hindrances({ ...node, holds: [...node.holds] }).map((h) => h.text)).toEqual(['Held (complaint): GPU 3 is slow, by Ada', 'Held (operator): fan, by user:1', 'In use by turnover 0af3'])
    expect(liftable({ holds: [...node.holds] })).toHaveLength(2)
  })

  it('never leaves a node that is not schedulable without a word', () => {
    expect(hindrances({ ...free, schedulable: false })).toHaveLength(1)
    expect(inBrief({ ...free, schedulable: false })).toBe('not schedulable')
  })
})
