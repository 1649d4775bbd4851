import { useMay } from '../../app/session'
import { LinkButton, Page } from '../../ui/basics'
import { Rollouts } from '../rollout/Rollouts'
import { Releases } from './Releases'
import { Versions } from './Versions'

/** Agents is the agents of the fleet: what runs, what is wanted, and what is on its way. */
export default function Agents() {
  const may = useMay()
  return (
    <Page
      title="Agents"
      lead="Which agent version each node runs, which releases exist, and which are being rolled out."
      actions={
        may('agent_rollout:manage') && (
          <LinkButton look="primary" to="/agents/rollouts/new">
            Roll a release out …
          </LinkButton>
        )
      }
    >
      {may('node:read') && <Versions />}
      {may('agent_rollout:read') && <Rollouts />}
      <Releases />
    </Page>
  )
}
