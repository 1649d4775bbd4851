import { useSearchState } from '../../app/location'
import { useMay, useMe } from '../../app/session'
import { Empty, Loading, Page, TextLink } from '../../ui/basics'
import { SelectField } from '../../ui/form'
import { mayIn } from '../access/roles'
import { TenantName } from '../allocation/TenantName'
import { useProjects } from '../allocation/projects'
import { Policies } from './Policies'
import { everyType } from './policy'

const platform = 'platform'

/** PoliciesPage is what counts for operations: of the platform, or in a project of one's own. Tenants and other projects have it on their own pages. */
export default function PoliciesPage() {
  const may = useMay()
  const me = useMe()
  const { projects, loading } = useProjects()
  const [search, change] = useSearchState()
  const seesPlatform = may('operation_policy:read')
  const mine = projects.filter((p) => mayIn(me, 'operation_policy:read', { orgId: p.org_id, projectId: p.project_id }))
  const project = mine.find((p) => p.project_id === search.project) ?? (seesPlatform ? undefined : mine[0])
  if (loading) return <Loading what="your projects" />
  return (
    <Page
      back={<TextLink to="/operations">Operations</TextLink>}
      title="Policies of operations"
      lead="The platform, tenants and projects set what may run and how. This page shows the value in force for each key and the level that set it. You also find them under Access."
    >
      {!project && !seesPlatform && <Empty title="You are in no project yet">Ask an administrator of a tenant or project for a role.</Empty>}
      {(project ?? seesPlatform) && (
        <>
          {(seesPlatform ? mine.length > 0 : mine.length > 1) && (
            <div className="max-w-md">
              <SelectField
                label="Where"
                value={project?.project_id ?? platform}
                onChange={(v) => change({ project: v === platform ? undefined : v })}
                options={[...(seesPlatform ? [{ value: platform, label: 'the platform' }] : []), ...mine.map((p) => ({ value: p.project_id, label: p.name }))]}
              />
            </div>
          )}
          {project && <p className="text-sm text-muted">A project of <TenantName id={project.org_id} />.</p>}
          <Policies of={project ? { orgId: project.org_id, projectId: project.project_id } : {}} type={search.type ?? everyType} onType={(type) => change({ type: type === everyType ? undefined : type })} />
        </>
      )}
    </Page>
  )
}
