import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api, got } from '../../api/client'
import { usePages } from '../../api/pages'
import { largestPage, readAll } from '../../api/readall'
import { useMe } from '../../app/session'
import { Badge, Button, Card, Empty, Facts, Loading } from '../../ui/basics'
import { ConfirmDialog } from '../../ui/confirm'
import { money } from '../../ui/money'
import { ProblemNote } from '../../ui/problem'
import { say } from '../../ui/toast'
import { mayIn } from '../access/roles'
import { ProjectName } from '../allocation/ProjectName'
import { budgetTone, budgetWords, type Budget } from './budget'
import { BudgetBar } from './BudgetBar'
import { accountQuery, budgetQuery } from './queries'
import { SetBudget } from './SetBudget'

/** Budgets are what the projects of a tenant mean to spend in a month. */
export function Budgets({ orgId }: { orgId: string }) {
  const me = useMe()
  const [setting, setSetting] = useState(false)
  const path = { org_id: orgId }
  const account = useQuery(accountQuery(orgId))
  const a = account.data
  const pages = usePages(['budgets', orgId], (cursor) => got(api.GET('/api/v1/tenants/{org_id}/budgets', { params: { path, query: { cursor, page_size: 100 } } })), { enabled: !!a })
  const projects = useQuery({ queryKey: ['projects', 'of', orgId, 'all'], queryFn: () => readAll((cursor) => got(api.GET('/api/v1/tenants/{org_id}/projects', { params: { path, query: { cursor, page_size: largestPage } } }))) })
  const manages = mayIn(me, 'budget:manage', { orgId })
  const without = (projects.data?.rows ?? []).filter((p) => !pages.rows.some((b) => b.project_id === p.project_id)).map((p) => ({ value: p.project_id, label: p.name }))
  if (account.isPending || (a && pages.loading)) return <Loading what="budgets" />
  if (a === undefined) return <ProblemNote error={account.error} onRetry={() => void account.refetch()} />
  if (a === null) return <Empty title="There are no budgets without a billing account">Until the tenant has one, it is not charged.</Empty>
  const set = manages && without.length > 0 && <Button onClick={() => setSetting(true)}>Set a budget …</Button>
  return (
    <div className="flex flex-col gap-3">
      {pages.error && <ProblemNote error={pages.error} onRetry={pages.retry} />}
      {pages.rows.length > 0 && set && <div>{set}</div>}
      {pages.rows.length === 0 && !pages.error && (
        <Empty title="No project has a budget" action={set}>
          A budget says what a project plans to spend in a month. The project gets alerts as it spends it; with a hard stop, new requests are refused once it is spent. {manages ? 'Set the first one.' : 'Administrators of the tenant set them.'}
        </Empty>
      )}
      <div className="grid grid-cols-1 items-start gap-3 xl:grid-cols-2">
        {pages.rows.map((b) => (
          <BudgetCard key={b.project_id} budget={b} manages={manages} />
        ))}
      </div>
      {pages.more && <Button onClick={pages.more}>More</Button>}
      {setting && <SetBudget currency={a.currency} projects={without} onClose={() => setSetting(false)} />}
    </div>
  )
}

/** ProjectBudget is the budget of one project; nothing where it has none. */
export function ProjectBudget({ projectId, orgId }: { projectId: string; orgId: string }) {
  const me = useMe()
  const [setting, setSetting] = useState(false)
  const manages = mayIn(me, 'budget:manage', { orgId })
  const read = useQuery(budgetQuery(projectId))
  const account = useQuery({ ...accountQuery(orgId), enabled: manages })
  if (read.isPending) return <Loading what="the budget" />
  if (read.data === undefined) return <ProblemNote error={read.error} onRetry={() => void read.refetch()} />
  if (read.data) return <BudgetCard budget={read.data} manages={manages} />
  if (!manages || !account.data) return null
  return (
    <>
      <div>
        <Button onClick={() => setSetting(true)}>Set a budget …</Button>
      </div>
      {setting && <SetBudget currency={account.data.currency} projects={[{ value: projectId, label: 'this one' }]} onClose={() => setSetting(false)} />}
    </>
  )
}

type Doing = 'change' | 'remove'

function BudgetCard({ budget: b, manages }: { budget: Budget; manages: boolean }) {
  const queries = useQueryClient()
  const [doing, setDoing] = useState<Doing>()
  const stop = () => setDoing(undefined)
  const as = (minor: number) => money(minor, b.currency)
  return (
    <Card
      title={
        <span className="inline-flex flex-wrap items-center gap-2">
          Budget of <ProjectName id={b.project_id} /> {b.hard_stop && <Badge tone={budgetTone(b)}>hard stop</Badge>}
        </span>
      }
      actions={
        manages && (
          <>
            <Button onClick={() => setDoing('change')}>Change …</Button>
            <Button onClick={() => setDoing('remove')}>Remove …</Button>
          </>
        )
      }
    >
      <div className="flex flex-col gap-3">
        <BudgetBar budget={b} />
        <p className="text-sm">{budgetWords(b)}</p>
        <Facts
          of={[
            ['Spent this month', `${as(b.spent_minor)} (${b.spent_percent} %)`],
            ['Budget', as(b.amount_minor)],
            ['Forecast for the month', as(b.forecast_minor)],
            ...(b.aside_minor ? [['Reserved for allocations that are starting', as(b.aside_minor)] as [string, string]] : []),
          ]}
        />
      </div>
      {doing === 'change' && <SetBudget currency={b.currency} projects={[{ value: b.project_id, label: 'this one' }]} budget={b} onClose={stop} />}
      {doing === 'remove' && (
        <ConfirmDialog
          title="Remove the budget"
          does="Remove it"
          act={() => got(api.DELETE('/api/v1/projects/{project_id}/budget', { params: { path: { project_id: b.project_id } } }))}
          onDone={() => {
            say('The project has no budget any more.')
            void queries.invalidateQueries({ queryKey: ['budgets'] })
          }}
          onClose={stop}
        >
          <p>The project gets no more alerts, and no request is refused.</p>
        </ConfirmDialog>
      )}
    </Card>
  )
}
