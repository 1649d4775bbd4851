import { describe, expect, it } from 'vitest'
import { actionsOf, turnovers } from './actions'
import type { Node } from './scheduling'

function node(change: Partial<Node>, agent: Partial<Node['agent']> = {}): Node {
  return { status: 'active', hold_reason: '', held_by: '', onboarding_mode: 'maas', agent: { agent_instance: 'i', certificate_not_after: '2030-01-01T00:00:00Z', ...agent }, ...change } as Node
}

describe('actionsOf', () => {
  it('follows the lifecycle', () => {
    expect(actionsOf(node({}))).toEqual(['hold', 'quarantine', 'task', 'recovery', 'revoke'])
    expect(actionsOf(node({ status: 'quarantined' }))).toContain('return_to_service')
    expect(actionsOf(node({ status: 'quarantined' }))).not.toContain('quarantine')
    expect(actionsOf(node({ status: 'deleted' }))).toEqual([])
  })

  it('leaves a node to the operation that owns it', () => {
    expect(actionsOf(node({ held_by: 'decommission 1' }))).not.toContain('quarantine')
    expect(actionsOf(node({ status: 'draining' }))).not.toContain('quarantine')
  })

  it('offers to take away only a hold that is there', () => {
    expect(actionsOf(node({ hold_reason: 'fan' }))).toContain('unhold')
    expect(actionsOf(node({}))).not.toContain('unhold')
  })

  it('asks no agent that has never enrolled', () => {
    const fresh = node({ status: 'bootstrap_issued' }, { agent_instance: '', certificate_not_after: undefined })
    expect(actionsOf(fresh)).toEqual(['hold', 'bootstrap'])
  })
})

describe('turnovers', () => {
  it('offers what the state allows', () => {
    expect(turnovers(node({ status: 'retired' })).map((t) => t.mode)).toEqual(['reimage', 'reactivate', 'remove', 'full_decommission'])
    expect(turnovers(node({ status: 'enrolling' })).map((t) => t.mode)).toEqual(['remove'])
  })

  it('reimages only what MAAS installs', () => {
    expect(turnovers(node({ onboarding_mode: 'manual' })).map((t) => t.mode)).not.toContain('reimage')
  })
})
