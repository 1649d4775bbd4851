import { useQuery } from '@tanstack/react-query'
import type { Schemas } from '../../api/client'
import { money } from '../../ui/money'
import { exact, useNow } from '../../ui/time'
import { termsQuery } from './queries'
import { costOf, heldFor, hourOf, nextPrice, whyFree } from './terms'

type Allocation = Schemas['AllocationView']

/** PerHour is what an hour of an allocation costs now, as it was agreed, and what the list says next if its price follows that; in a list it is only the amount. */
export function PerHour({ allocation: a, plain }: { allocation: Allocation; plain?: boolean }) {
  const now = useNow()
  const terms = useQuery(termsQuery(a)).data
  if (terms === undefined) return plain ? null : <>…</>
  const why = terms === null ? 'free of charge: nothing was agreed when it was made' : whyFree(terms)
  if (why) return plain ? <span title={why}>free</span> : <>{why}</>
  const hour = terms?.currency ? money(hourOf(terms, now), terms.currency) : ''
  const next = terms && nextPrice(terms, now)
  if (plain) return <>{hour}</>
  if (!terms?.currency || terms.pricing === 'fixed') return <>{hour} an hour</>
  return (
    <>
      {hour} per hour, at list price
      {next && `; ${money(next.price_minor, terms.currency)} per GPU hour from ${exact(next.from)}`}
    </>
  )
}

/** SoFar is what an allocation has cost until now; what is given back for time in which it could not be used is not taken off. */
export function SoFar({ allocation: a }: { allocation: Allocation }) {
  const now = useNow()
  const terms = useQuery(termsQuery(a)).data
  if (!terms?.currency || whyFree(terms)) return <>{terms === undefined ? '' : 'nothing'}</>
  return (
    <span className="tabular-nums" aria-live="off">
      {money(costOf(terms, heldFor(a, now), Date.parse(a.active_at ?? '')), terms.currency)}
    </span>
  )
}
