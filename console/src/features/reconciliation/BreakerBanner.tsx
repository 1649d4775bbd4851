import { useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api, got } from '../../api/client'
import { useMay } from '../../app/session'
import { Button, Note, TextLink } from '../../ui/basics'
import { ReasonDialog } from '../../ui/dialog'
import { Elapsed, When } from '../../ui/time'
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
  // What was seen when the question was asked: it stands while others decide or nodes come and go.
  const [asked, setAsked] = useState<{ site: SiteOverview; decision: Decision }>()
  const open = (status.data?.sites ?? []).filter((s) => s.breaker)
  return (
    <>
      {open.map((site) => (
        <OpenBreaker key={site.site_id} site={site} asOf={status.error ? status.dataUpdatedAt : undefined} onDecide={(decision) => setAsked({ site, decision })} />
      ))}
      {asked && <Decide site={asked.site} confirmed={open.find((s) => s.site_id === asked.site.site_id)?.breaker?.confirmed_at} decision={asked.decision} onClose={() => setAsked(undefined)} />}
    </>
  )
}

function OpenBreaker({ site, asOf, onDecide }: { site: SiteOverview; /** When it was last read, where it could not be read since. */ asOf?: number; onDecide: (decision: Decision) => void }) {
  const may = useMay()
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
            <Button look="danger" onClick={() => onDecide('confirm')}>
              Quarantine them …
            </Button>
            <Button onClick={() => onDecide('dismiss')}>Dismiss …</Button>
          </>
        )
      }
    >
      <p>
        For <Elapsed from={breaker.since} />, reconciliation has wanted to quarantine more nodes at once than is plausible. Either something happened to many machines, or MAAS reports wrong data. {decided ? '' : 'It quarantines none of them until an operator decides. Until then, a node whose machine MAAS has released gets no new work; the others still do.'}
      </p>
      {decided && (
        <p className="mt-1">
          Confirmed <When at={breaker.confirmed_at} />: they are being quarantined.
        </p>
      )}
      <HeldBack nodes={breaker.nodes} />
      {asOf !== undefined && (
        <p className="mt-1">
          As of <When at={new Date(asOf).toISOString()} />: gpuaas has not been able to update this since.
        </p>
      )}
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

function Decide({ site, confirmed, decision, onClose }: { site: SiteOverview; /** When somebody else confirmed it meanwhile. */ confirmed?: string; decision: Decision; onClose: () => void }) {
  const queries = useQueryClient()
  const seen = (site.breaker?.nodes ?? []).map((n) => n.node_id)
  const count = seen.length
  // Whoever is refused because the nodes are others by now looks at those next.
  const again = () => void queries.invalidateQueries({ queryKey: ['drift'] })
  const confirming = decision === 'confirm'
  return (
    <ReasonDialog
      title={confirming ? `Quarantine ${count} nodes of ${site.name}` : `Dismiss the breaker of ${site.name}`}
      does={confirming ? `Quarantine ${count} nodes` : 'Dismiss'}
      danger={confirming}
      act={(reason) => got(api.POST('/api/v1/admin/reconciliation/sites/{site_id}/breaker', { params: { path: { site_id: site.site_id } }, body: { decision, node_ids: seen, reason } })).finally(again)}
      onDone={() => {
        say(confirming ? `The nodes of ${site.name} are being quarantined.` : `The breaker of ${site.name} is closed.`)
      }}
      onClose={onClose}
    >
      {confirmed && (
        <Note tone="warn" title="Somebody has confirmed it in the meantime">
          Confirmed <When at={confirmed} />: the nodes are being quarantined. {confirming ? 'There is nothing left to decide.' : 'Dismissing it stops only what has not been done yet.'}
        </Note>
      )}
      {confirming ? (
        <>
          <p>Confirm if something really happened to these machines. Exactly the {count} listed nodes are quarantined.</p>
          <p>No new work is placed on them. Running work continues. Check each node afterwards.</p>
        </>
      ) : (
        <>
          <p>Dismiss if MAAS reported wrong data. The nodes stay as they are, and the breaker closes.</p>
          <p>Fix MAAS first: if it still reports the same, the breaker opens again.</p>
        </>
      )}
    </ReasonDialog>
  )
}
