import { useQuery } from '@tanstack/react-query'
import { useSearchState } from '../../app/location'
import { useMay, useMe } from '../../app/session'
import { Empty, Loading, Page } from '../../ui/basics'
import { SelectField } from '../../ui/form'
import { ProblemNote } from '../../ui/problem'
import { Tabs, type Tab } from '../../ui/tabs'
import { useFromNow } from '../../ui/time'
import { useProject } from '../access/reading'
import { mayIn } from '../access/roles'
import { useProjects } from '../allocation/projects'
import { Budgets, ProjectBudget } from './Budgets'
import { Cost } from './Cost'
import { Ledger } from './Ledger'
import { Purse } from './Purse'
import { tenantsQuery, type Scope } from './queries'
import { Revenue } from './Revenue'
import { Statements } from './Statements'
import { isMonth, monthOf, monthsBefore, spanOf } from './usage'

const all = 'all'

/** Billing is what time on nodes costs: for a project, a tenant, or all tenants together. */
export default function Billing() {
  const me = useMe()
  const may = useMay()
  const [search, change] = useSearchState()
  const tenants = useQuery(tenantsQuery)
  const { projects, loading } = useProjects()
  const seesAll = may('billing:read')
  const paying = (tenants.data?.rows ?? []).filter((t) => mayIn(me, 'billing:read', { orgId: t.org_id }))
  const used = projects.filter((p) => mayIn(me, 'usage:read', { orgId: p.org_id, projectId: p.project_id }))
  const scope: Scope | undefined = search.project ? { projectId: search.project } : search.tenant ? { orgId: search.tenant } : seesAll ? {} : paying[0] ? { orgId: paying[0].org_id } : used[0] ? { projectId: used[0].project_id } : undefined
  const month = useMonth(search.month)
  if (tenants.isPending || loading) return <Loading what="your tenants and projects" />
  const listed = [
    ...(seesAll ? [{ value: all, label: 'all tenants' }] : []),
    ...paying.map((t) => ({ value: `tenant ${t.org_id}`, label: `${t.name} (tenant)` })),
    ...used.map((p) => ({ value: `project ${p.project_id}`, label: `${p.name} (project)` })),
  ]
  const value = scope?.projectId ? `project ${scope.projectId}` : scope?.orgId ? `tenant ${scope.orgId}` : all
  const choose = (to: string) => {
    const [what, id] = to.split(' ')
    change({ tenant: what === 'tenant' ? id : undefined, project: what === 'project' ? id : undefined, tab: undefined, statement: undefined })
  }
  return (
    <Page title="Billing" lead="What your nodes cost, from handover until you release them. Preparation, cleaning and repairs are not charged.">
      {tenants.error && <ProblemNote error={tenants.error} onRetry={() => void tenants.refetch()} />}
      {!scope && !tenants.error && <Empty title="You are in no project yet">Ask an administrator of a tenant or project for a role.</Empty>}
      {scope && (
        <>
          <div className="grid gap-3 sm:grid-cols-3 lg:grid-cols-5">
            {(listed.length > 1 || !listed.some((o) => o.value === value)) && <SelectField label="Tenant or project" value={value} onChange={choose} options={listed.some((o) => o.value === value) ? listed : [...listed, { value, label: 'a project' }]} />}
            <SelectField label="Month (UTC)" value={month.shown} onChange={(m) => change({ month: m === month.now ? undefined : m })} options={month.choices} />
          </div>
          <Scoped key={value} scope={scope} month={month.shown} now={month.now} tab={search.tab} onTab={(tab) => change({ tab })} />
        </>
      )}
    </Page>
  )
}

/** useMonth is the month that is looked at, of those that there are. */
function useMonth(asked: string | undefined) {
  const now = useFromNow(monthOf)
  const shown = isMonth(asked) && asked <= now ? asked : now
  const before = monthsBefore(Date.parse(spanOf(now).from))
  return { now, shown, choices: before.includes(shown) ? before : [...before, shown] }
}

type Props = { scope: Scope; month: string; now: string; tab?: string; onTab: (tab: string | undefined) => void }

function Scoped({ scope, month, now, tab, onTab }: Props) {
  const { orgId, projectId } = scope
  if (projectId) return <OfProject projectId={projectId} month={month} now={now} />
  if (!orgId) return <Revenue month={month} now={now} />
  const tabs: Tab[] = [
    { key: 'cost', title: 'Cost', body: () => <Cost scope={scope} month={month} now={now} /> },
    { key: 'budgets', title: 'Budgets', body: () => <Budgets orgId={orgId} /> },
    { key: 'statements', title: 'Statements', body: () => <Statements orgId={orgId} now={now} /> },
    { key: 'ledger', title: 'Ledger', body: () => <Ledger orgId={orgId} /> },
  ]
  return (
    <>
      <Purse orgId={orgId} />
      <Tabs label="Billing" tabs={tabs} shown={tab ?? 'cost'} onShow={(t) => onTab(t === 'cost' ? undefined : t)} />
    </>
  )
}

function OfProject({ projectId, month, now }: { projectId: string; month: string; now: string }) {
  const project = useProject(projectId)
  if (project.error && !project.data) return <ProblemNote error={project.error} onRetry={() => void project.refetch()} />
  return (
    <>
      {project.data && <ProjectBudget projectId={projectId} orgId={project.data.body.org_id} />}
      <Cost scope={{ projectId }} month={month} now={now} />
    </>
  )
}
