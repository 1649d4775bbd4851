import { useMay } from '../../app/session'
import { Empty, LinkButton, Loading, Page } from '../../ui/basics'
import { ProblemNote } from '../../ui/problem'
import { When } from '../../ui/time'
import { BreakerBanner } from '../reconciliation/BreakerBanner'
import { useStatus } from '../reconciliation/reading'
import { Attention } from './Attention'
import { Cards } from './Cards'
import { useSummary, useSystem } from './fleet'
import { FleetMap } from './FleetMap'
import { Teach } from './Teach'

/** Overview is what whoever is on call looks at first: how the fleet is, and what waits for them. */
export default function Overview() {
  const may = useMay()
  if (!may('node:read')) {
    return (
      <Page title="Welcome">
        <Empty title="The fleet is not yours to see" action={<LinkButton to="/access">Your tenants and projects</LinkButton>}>
          You hold no role on the platform. What you have access to is under Access.
        </Empty>
      </Page>
    )
  }
  return <Fleet />
}

function Fleet() {
  const summary = useSummary()
  const may = useMay()
  const reconciliation = useStatus(may('reconciliation:read'))
  const system = useSystem()
  const unknown = [summary.error && 'the fleet', reconciliation.error && 'reconciliation', system.error && 'the health of the control plane'].filter((u): u is string => !!u)
  const nodes = summary.data?.total ?? 0
  return (
    <Page title="Overview" lead={summary.data && <>As of <When at={summary.data.as_of} /></>}>
      <BreakerBanner />
      {summary.isPending && <Loading what="the fleet" />}
      {summary.error && !summary.data && <ProblemNote error={summary.error} onRetry={() => void summary.refetch()} />}
      {summary.data && nodes > 0 && <Cards summary={summary.data} />}
      {summary.data && nodes === 0 && <Teach sites={summary.data.sites.length} />}
      <Attention summary={summary.data} reconciliation={reconciliation.data} system={system.data} unknown={unknown} />
      {nodes > 0 && <FleetMap summary={summary.data} />}
    </Page>
  )
}
