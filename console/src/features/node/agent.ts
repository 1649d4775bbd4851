import type { Schemas } from '../../api/client'
import { toneOf, words, type Tone } from '../../ui/tone'

export type Agent = Schemas['NodeAgentView']

const explained: Record<string, string> = {
  in_sync: 'The agent is the desired version.',
  version_drift: 'A different version of the agent is desired.',
  config_drift: 'The agent does not have the newest task verifiers.',
  certificate_only_repair_needed: 'The certificate of the agent has expired or was revoked. Issue a recovery bootstrap.',
}

export type AgentBadge = { label: string; tone: Tone; explanation: string }

/** agentBadge is how the agent of a node is shown wherever the node is listed. */
export function agentBadge(agent: Agent): AgentBadge {
  if (agent.reported_agent_version === '') return { label: 'No agent yet', tone: 'idle', explanation: 'No agent of this node has enrolled yet.' }
  if (agent.badge === 'unknown_build') return { label: words('unknown_build'), tone: 'warn', explanation: 'The control plane cannot tell how this agent was built, which counts as drift. Install a released agent.' }
  return { label: words(agent.drift_state), tone: toneOf('drift', agent.drift_state), explanation: explained[agent.drift_state] ?? '' }
}
