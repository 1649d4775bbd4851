import { useQuery } from '@tanstack/react-query'
import type { Schemas } from '../../api/client'
import { money } from '../../ui/money'
import { useNow } from '../../ui/time'
import { termsQuery } from './queries'
import { costOf, heldFor, hourOf, whyFree } from './terms'

type Allocation = Schemas['AllocationView']

/** PerHour is what an hour of an allocation costs, as it was agreed; in a list it is only the amount. */
export function PerHour({ allocation: a, plain }: { allocation: Allocation; plain?: boolean }) {
  const terms = useQuery(termsQuery(a)).data
  if (terms === undefined) return plain ? null : <>…</>
  const why = terms === null ? 'free of charge: nothing was agreed when it was made' : whyFree(terms)
  if (why) return plain ? <span title={why}>free</span> : <>{why}</>
  const hour = terms?.currency ? money(hourOf(terms), terms.currency) : ''
  return <>{plain ? hour : `${hour} an hour`}</>
}

/** SoFar is what an allocation has cost until now; what is given back for time in which it could not be used is not taken off. */
export function SoFar({ allocation: a }: { allocation: Allocation }) {
  const now = useNow()
  const terms = useQuery(termsQuery(a)).data
  if (!terms?.currency || whyFree(terms)) return <>{terms === undefined ? '' : 'nothing'}</>
  return (
    <span className="tabular-nums" aria-live="off">
      {money(costOf(terms, heldFor(a, now)), terms.currency)}
    </span>
  )
}
