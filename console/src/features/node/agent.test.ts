import { describe, expect, it } from 'vitest'
import { agentBadge, unknownBuild, type Agent } from './agent'

function agent(change: Partial<Agent>): Agent {
  return {
    agent_channel: 'stable',
    agent_instance: 'i',
    desired_agent_version: '',
    desired_delivery_mode: 'reimage',
    drift_state: 'in_sync',
    last_delivery_correlation_id: '',
    last_delivery_result: '',
    reported_agent_commit: 'abc',
    reported_agent_version: '1.2.0',
    trust_bundle: '',
    trust_refused: '',
    verifier_version: 1,
    ...change,
  }
}

describe('agentBadge', () => {
  it('says how the agent is', () => {
    expect(agentBadge(agent({})).label).toBe('Current')
    expect(agentBadge(agent({ drift_state: 'version_drift' })).label).toBe('Outdated')
    expect(agentBadge(agent({ drift_state: 'config_drift' })).label).toBe('Config drift')
    expect(agentBadge(agent({ drift_state: 'certificate_only_repair_needed' })).label).toBe('Cert repair')
  })

  it('calls a build unknown whatever else is the matter', () => {
    for (const change of [{ reported_agent_version: 'dev' }, { reported_agent_commit: 'unknown' }, { reported_agent_commit: '' }, { reported_agent_version: '' }] as const) {
      expect(unknownBuild(agent(change))).toBe(true)
      expect(agentBadge(agent({ ...change, drift_state: 'certificate_only_repair_needed' })).label).toBe('Unknown build')
    }
    expect(unknownBuild(agent({}))).toBe(false)
  })

  it('tells a node without an agent from one with an unknown build', () => {
    expect(agentBadge(agent({ reported_agent_version: '' })).tone).toBe('idle')
    expect(agentBadge(agent({ reported_agent_version: 'dev' })).tone).toBe('warn')
  })
})
