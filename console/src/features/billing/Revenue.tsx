import { useQueries, useQuery } from '@tanstack/react-query'
import { useMay } from '../../app/session'
import { Card, Empty, Loading, Stat } from '../../ui/basics'
import { ProblemNote } from '../../ui/problem'
import { Table, type Column } from '../../ui/table'
import { exact } from '../../ui/time'
import { useOffered } from '../sku/offered'
import { ByDay } from './ByDay'
import { anHour, kindOf, percent, sorts, sortWords, utilisation, type Kind, type Sort } from './capacity'
import { Parts } from './Parts'
import { fleetOfQuery, rentedNowQuery, usageQuery } from './queries'
import { daysOf, hours, inWords, partsBy, whole, type Part } from './usage'

/** Revenue is what all tenants together used in a month and what that earns, and what of the fleet earns nothing. */
export function Revenue({ month, now }: { month: string; now: string }) {
  const may = useMay()
  const thisMonth = month === now
  const usage = useQuery(usageQuery({}, month, thisMonth, ['tenant', 'sku', 'day']))
  if (usage.isPending) return <Loading what="what was used" />
  if (!usage.data) return <ProblemNote error={usage.error} onRetry={() => void usage.refetch()} />
  const { lines, from, to, made_at } = usage.data
  const all = whole(lines)
  const until = thisMonth ? made_at : to
  const bySku = partsBy(lines, (l) => ({ key: l.sku }))
  return (
    <div className="flex flex-col gap-4">
      {usage.error && <ProblemNote error={usage.error} onRetry={() => void usage.refetch()} />}
      <div className="flex flex-wrap gap-2">
        <Stat label={thisMonth ? 'Earned this month so far' : 'Earned in the month'} value={inWords(all.net)} hint="For the time that was used, less compensation." />
        <Stat label="Compensated" value={inWords(all.back)} hint="For time in which nodes could not be used, and by corrections." />
        <Stat label="GPU hours rented" value={hours(all.unitSeconds)} hint="Hours of GPUs, also those that are free of charge; a machine without GPUs counts as one." />
      </div>
      {thisMonth && <p className="text-xs text-muted">As of {exact(made_at)}, including use that is not booked yet.</p>}
      {lines.length === 0 ? (
        <Empty title="Nothing was rented">What tenants rent appears here from the moment at which it is ready.</Empty>
      ) : (
        <>
          <Card title="By day (UTC)">
            <ByDay days={daysOf(lines, from, until)} />
          </Card>
          <div className="grid grid-cols-1 items-start gap-4 xl:grid-cols-2">
            <Parts title="By tenant" parts={partsBy(lines, (l) => ({ key: l.org_id, name: l.tenant }))} link={(p) => ({ tenant: p.key })} />
            <Parts title="By SKU" parts={bySku} />
          </div>
        </>
      )}
      {may('node:read') && <Capacity used={bySku} seconds={(Date.parse(until) - Date.parse(from)) / 1000} heard={{ at: made_at, when: usage.dataUpdatedAt }} />}
    </div>
  )
}

/** Capacity is what becomes of the machines of each SKU, and what of it would earn how much. */
function Capacity({ used, seconds, heard }: { used: Part[]; seconds: number; heard: { at: string; when: number } }) {
  const { skus, pending, error } = useOffered()
  const rented = useQuery(rentedNowQuery(heard))
  const fleets = useQueries({ queries: skus.map((s) => fleetOfQuery(s.sku_id)) })
  const failed = error ?? rented.error ?? fleets.find((f) => f.error)?.error
  if (failed) return <ProblemNote error={failed} onRetry={() => void rented.refetch()} />
  if (pending || rented.isPending || fleets.some((f) => f.isPending)) return <Loading what="the capacity" />
  const kinds = skus.flatMap((s, i) => {
    const counted = fleets[i]?.data
    return counted ? [kindOf(s, counted, rented.data?.get(s.sku_id) ?? 0)] : []
  })
  const there = kinds.filter((k) => k.there > 0)
  const usedOf = new Map(used.map((p) => [p.key, p]))
  const sorted = (sort: Sort): Column<Kind> => ({ key: sort, title: sortWords[sort].title, width: '7rem', align: 'right', cell: (k) => k.units[sort] })
  const columns: Column<Kind>[] = [
    { key: 'sku', title: 'SKU', width: 'minmax(11rem,1fr)', cell: (k) => k.sku },
    { key: 'share', title: 'Utilisation', width: '7rem', align: 'right', cell: (k) => percent(utilisation(usedOf.get(k.sku), k.there, seconds)) },
    { key: 'there', title: 'GPUs in the fleet', width: '7rem', align: 'right', cell: (k) => k.there },
    ...sorts.map(sorted),
  ]
  return (
    <Card title="Capacity, and what it earns">
      <div className="flex flex-col gap-3">
        <p className="text-sm text-muted">
          Utilisation is the share of GPU hours that was rented in this period, based on the machines in the fleet now. The other columns show the present state, in GPUs (a machine without GPUs counts as one), and their hourly value at list prices.
        </p>
        <div className="flex flex-wrap gap-2">
          {sorts.map((s) => (
            <Stat key={s} label={`${sortWords[s].title}, an hour`} value={inWords(anHour(there, s))} hint={sortWords[s].hint} />
          ))}
        </div>
        <Table label="Capacity by SKU" columns={columns} rows={there} rowKey={(k) => k.sku} empty={<Empty title="There are no nodes yet">Onboard machines to rent them out.</Empty>} />
      </div>
    </Card>
  )
}
