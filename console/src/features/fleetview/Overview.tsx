import { useQueries } from '@tanstack/react-query'
import { batchFamilies, jobFamilies } from '../../api/jobs'
import { useMay } from '../../app/session'
import { Empty, LinkButton, Loading, Page } from '../../ui/basics'
import { ProblemNote } from '../../ui/problem'
import { When } from '../../ui/time'
import { BreakerBanner } from '../reconciliation/BreakerBanner'
import { useStatus } from '../reconciliation/reading'
import { Attention } from './Attention'
import { Cards } from './Cards'
import { batchesQuery, parkedQuery, useSummary, useSystem } from './fleet'
import { FleetMap } from './FleetMap'
import { Teach } from './Teach'

/** Overview is what whoever is on call looks at first: how the fleet is, and what waits for them. */
export default function Overview() {
  const may = useMay()
  if (!may('node:read')) {
    return (
      <Page title="Welcome">
        <Empty title="You do not have access to the fleet" action={<LinkButton to="/access">Your tenants and projects</LinkButton>}>
          You have no platform role. What you do have access to is listed under Access.
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
  const batches = useQueries({ queries: batchFamilies.map((f) => ({ ...batchesQuery(f), enabled: may(`${f}:read`) })) })
  const parked = useQueries({ queries: jobFamilies.map((f) => ({ ...parkedQuery(f), enabled: may(`${f}:read`) })) })
  const asked = [
    { what: 'the fleet', query: summary, may: true },
    { what: 'reconciliation and its circuit breakers', query: reconciliation, may: may('reconciliation:read') },
    { what: 'the health of the control plane', query: system, may: may('system:read') },
    ...batchFamilies.flatMap((f, i) => (batches[i] ? [{ what: `batches of ${f}s`, query: batches[i], may: may(`${f}:read`) }] : [])),
  ].filter((a) => a.may)
  const unknown = asked.filter((a) => a.query.error).map((a) => a.what)
  const pending = asked.filter((a) => a.query.isPending).map((a) => a.what)
  const nodes = summary.data?.total ?? 0
  return (
    <Page title="Overview" lead={summary.data && <>As of <When at={summary.data.as_of} /></>}>
      <BreakerBanner />
      {summary.isPending && <Loading what="the fleet" />}
      {summary.error && !summary.data && <ProblemNote error={summary.error} onRetry={() => void summary.refetch()} />}
      {summary.data && nodes === 0 && <Teach sites={summary.data.sites.length} />}
      <Attention summary={summary.data} reconciliation={reconciliation.data} system={system.data} batches={Object.fromEntries(batchFamilies.map((f, i) => [f, batches[i]?.data?.items]))} parked={Object.fromEntries(jobFamilies.map((f, i) => [f, parked[i]?.data?.items]))} pending={pending} unknown={unknown} />
      {summary.data && nodes > 0 && <Cards summary={summary.data} />}
      {nodes > 0 && <FleetMap summary={summary.data} />}
    </Page>
  )
}
