import { describe, expect, it } from 'vitest'
import { agentBadge, type Agent } from './agent'

function agent(change: Partial<Agent>): Agent {
  return {
    agent_channel: 'stable',
    agent_instance: 'i',
    badge: 'current',
    desired_agent_version: '',
    desired_delivery_mode: 'reimage',
    drift_state: 'in_sync',
    last_delivery_correlation_id: '',
    last_delivery_result: '',
    reported_agent_commit: 'abc',
    reported_agent_version: '1.2.0',
    trust_bundle: '',
    trust_refused: '',
    update_path: 'in_place',
    update_path_because: '',
    verifier_version: 1,
    wanted_agent_version: '',
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
    expect(agentBadge(agent({ badge: 'unknown_build', drift_state: 'certificate_only_repair_needed' })).label).toBe('Unknown build')
  })

  it('tells a node without an agent from one with an unknown build', () => {
    expect(agentBadge(agent({ badge: 'unknown_build', reported_agent_version: '' }))).toMatchObject({ label: 'No agent yet', tone: 'idle' })
    expect(agentBadge(agent({ badge: 'unknown_build', reported_agent_version: 'dev' })).tone).toBe('warn')
  })
})
