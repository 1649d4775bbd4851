import { Badge } from '../../ui/basics'
import { agentBadge, type Agent } from './agent'

/** AgentState is the badge of a node's agent: Current, Outdated, Config drift, Cert repair, Unknown build or No agent yet. */
export function AgentState({ agent }: { agent: Agent }) {
  const { label, tone, explanation } = agentBadge(agent)
  return (
    <Badge tone={tone} title={explanation}>
      {label}
    </Badge>
  )
}
