import { useQuery, useQueryClient } from '@tanstack/react-query'
import { Card, Empty, Loading, Note, Stat } from '../../ui/basics'
import { ProblemNote } from '../../ui/problem'
import { exact } from '../../ui/time'
import { ByDay } from './ByDay'
import { burnOf, forecastOf, unusedBurnOf } from './forecast'
import { Parts } from './Parts'
import { keptQuery, runningQuery, usageQuery, type Scope } from './queries'
import { daysOf, hours, inWords, partsBy, spanOf, whole, type Part } from './usage'

type Props = { scope: Scope; month: string; /** The month that it is now. */ now: string }

/** Cost is what a month costs: so far, an hour of what runs, to its end, and by day, project and SKU. */
export function Cost({ scope, month, now }: Props) {
  const thisMonth = month === now
  const usage = useQuery(usageQuery(scope, month, thisMonth, ['project', 'sku', 'day']))
  if (usage.isPending) return <Loading what="what was used" />
  if (!usage.data) return <ProblemNote error={usage.error} onRetry={() => void usage.refetch()} />
  const { lines, from, to, made_at } = usage.data
  const all = whole(lines)
  const until = thisMonth ? made_at : to
  return (
    <div className="flex flex-col gap-4">
      {usage.error && <ProblemNote error={usage.error} onRetry={() => void usage.refetch()} />}
      <div className="flex flex-wrap gap-2">
        <Stat label={thisMonth ? 'This month so far' : 'The month'} value={inWords(all.net)} hint={`${inWords(all.cost)} for the time that was used, less ${inWords(all.back)} of compensation`} />
        {thisMonth && <Ahead scope={scope} soFar={all.net} month={month} at={made_at} />}
        <Stat label="GPU hours" value={hours(all.unitSeconds)} hint="Hours of GPUs; a machine without GPUs counts as one." />
        {Object.values(all.unused).some((minor) => minor !== 0) && <Stat label="Of it reserved, unused" value={inWords(all.unused)} hint="For nodes that were reserved and not used." />}
        {Object.values(all.back).some((minor) => minor !== 0) && <Stat label="Compensated" value={inWords(all.back)} hint="For time in which nodes could not be used, and by corrections." />}
      </div>
      {thisMonth && <p className="text-xs text-muted">As of {exact(made_at)}, including use that is not booked yet.</p>}
      {lines.length === 0 ? (
        <Empty title="Nothing was used">Allocations appear here once they are ready to use.</Empty>
      ) : (
        <>
          <Card title="By day (UTC)">
            <ByDay days={daysOf(lines, from, until)} />
          </Card>
          <div className="grid grid-cols-1 items-start gap-4 xl:grid-cols-2">
            {!scope.projectId && <Parts title="By project" parts={partsBy(lines, (l) => ({ key: l.project_id, name: l.project }))} link={(p) => ({ project: p.key })} />}
            <Parts title="By SKU" parts={partsBy(lines, (l) => ({ key: l.sku }))} />
          </div>
        </>
      )}
    </div>
  )
}

/** Ahead is what an hour costs with all that is rented and reserved now, and what the month will cost if that stays so. */
function Ahead({ scope, soFar, month, at }: { scope: Scope; soFar: Part['net']; month: string; at: string }) {
  const queries = useQueryClient()
  const read = useQuery(runningQuery(scope, queries))
  const kept = useQuery(keptQuery(scope))
  if (read.isPending || kept.isPending) return null
  if (!read.data) return <ProblemNote error={read.error} onRetry={() => void read.refetch()} />
  if (!kept.data) return <ProblemNote error={kept.error} onRetry={() => void kept.refetch()} />
  const { running, left } = read.data
  const moment = Date.parse(at)
  const unused = unusedBurnOf(kept.data, moment)
  const ofIt = Object.values(unused).some((minor) => minor !== 0) ? `, ${inWords(unused)} of it for nodes that are reserved and not used` : ''
  return (
    <>
      <Stat label="Cost per hour now" value={inWords(burnOf(running, kept.data, moment))} hint={`By the prices and discounts that were agreed${ofIt}.`} />
      <Stat label="Forecast for the month" value={inWords(forecastOf(soFar, running, kept.data, moment, Date.parse(spanOf(month).to)))} hint="The cost so far, plus present allocations and unused nodes of present reservations until they end, or until the end of the month." />
      {left > 0 && <Note title={`${left} allocations are missing from the hourly cost and the forecast`}>There are too many to add up on this page.</Note>}
    </>
  )
}
