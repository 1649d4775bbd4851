import { useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api, got } from '../../api/client'
import { useMay } from '../../app/session'
import { Button, Note, TextLink } from '../../ui/basics'
import { ReasonDialog } from '../../ui/dialog'
import { When } from '../../ui/time'
import { say } from '../../ui/toast'
import type { SiteOverview } from './findings'
import { useStatus } from './reading'

type Decision = 'confirm' | 'dismiss'

/**
 * BreakerBanner shows, for each site whose circuit breaker is open, which nodes are
 * held back and has an operator decide. It shows nothing while all are closed.
 */
export function BreakerBanner() {
  const may = useMay()
  const status = useStatus(may('reconciliation:read'))
  const open = (status.data?.sites ?? []).filter((s) => s.breaker)
  return (
    <>
      {open.map((site) => (
        <OpenBreaker key={site.site_id} site={site} />
      ))}
    </>
  )
}

function OpenBreaker({ site }: { site: SiteOverview }) {
  const may = useMay()
  const [deciding, setDeciding] = useState<Decision>()
  const { breaker } = site
  if (!breaker) return null
  const count = breaker.nodes.length
  const decided = breaker.confirmed_at !== undefined
  return (
    <Note
      tone="bad"
      title={`Circuit breaker of site ${site.name}: ${count} ${count === 1 ? 'node is' : 'nodes are'} held back from quarantine`}
      actions={
        may('reconciliation:manage') &&
        !decided && (
          <>
            <Button look="danger" onClick={() => setDeciding('confirm')}>
              Confirm …
            </Button>
            <Button onClick={() => setDeciding('dismiss')}>Dismiss …</Button>
          </>
        )
      }
    >
      <p>
        Since <When at={breaker.since} /> more nodes would have been quarantined at once than is plausible. Either something happened to many machines, or MAAS tells what is not so. Nothing is quarantined here until somebody decides, and new work is still placed on these nodes.
      </p>
      {decided && (
        <p className="mt-1">
          Confirmed <When at={breaker.confirmed_at} />: they are being quarantined.
        </p>
      )}
      <HeldBack nodes={breaker.nodes} />
      {deciding && <Decide site={site} decision={deciding} onClose={() => setDeciding(undefined)} />}
    </Note>
  )
}

const shownAtFirst = 24

function HeldBack({ nodes }: { nodes: { node_id: string; hostname: string }[] }) {
  const [all, setAll] = useState(false)
  const shown = all ? nodes : nodes.slice(0, shownAtFirst)
  return (
    <ul className="mt-2 flex flex-wrap gap-x-3 gap-y-1" aria-label="Nodes that are held back">
      {shown.map((n) => (
        <li key={n.node_id}>
          <TextLink to={`/drift/${n.node_id}`}>
            {n.hostname}
          </TextLink>
        </li>
      ))}
      {shown.length < nodes.length && (
        <li>
          <button type="button" className="text-accent underline" onClick={() => setAll(true)}>
            and {nodes.length - shown.length} more
          </button>
        </li>
      )}
    </ul>
  )
}

function Decide({ site, decision, onClose }: { site: SiteOverview; decision: Decision; onClose: () => void }) {
  const queries = useQueryClient()
  const count = site.breaker?.nodes.length ?? 0
  const confirming = decision === 'confirm'
  return (
    <ReasonDialog
      title={confirming ? `Quarantine ${count} nodes of ${site.name}` : `Dismiss the breaker of ${site.name}`}
      does={confirming ? `Quarantine ${count} nodes` : 'Dismiss'}
      danger={confirming}
      act={(reason) => got(api.POST('/api/v1/admin/reconciliation/sites/{site_id}/breaker', { params: { path: { site_id: site.site_id } }, body: { decision, reason } }))}
      onDone={() => {
        say(confirming ? `The nodes of ${site.name} are being quarantined.` : `The breaker of ${site.name} is closed.`)
        void queries.invalidateQueries({ queryKey: ['drift'] })
      }}
      onClose={onClose}
    >
      {confirming ? (
        <>
          <p>It is true: something happened to these machines. Exactly the {count} listed nodes are quarantined.</p>
          <p>Nothing new is placed on them. What runs there is not touched. Deal with each of them afterwards.</p>
        </>
      ) : (
        <>
          <p>It is not true: MAAS told what is not so. The nodes are let be, and the breaker closes.</p>
          <p>Mend MAAS first: dismissed while MAAS still says so, the breaker opens again.</p>
        </>
      )}
    </ReasonDialog>
  )
}
