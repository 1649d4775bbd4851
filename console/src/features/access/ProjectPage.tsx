import { useQueryClient } from '@tanstack/react-query'
import { useState, type ReactNode } from 'react'
import { api, got, type Schemas } from '../../api/client'
import { useParam, useSearchState } from '../../app/location'
import { useMe, type Permission } from '../../app/session'
import { Button, Card, Code, Facts, Loading, Page, TextLink } from '../../ui/basics'
import { ProblemNote } from '../../ui/problem'
import { Tabs, type Tab } from '../../ui/tabs'
import { When } from '../../ui/time'
import { say } from '../../ui/toast'
import { Policies } from '../policy/Policies'
import { everyType } from '../policy/policy'
import { Quotas } from '../quota/Quotas'
import { RentalSettings } from '../rentalsettings/RentalSettings'
import { ProjectKeys } from '../sshkey/Keys'
import { Webhooks } from '../webhook/Webhooks'
import { Members } from './Members'
import { Rename } from './Naming'
import { useProject, useTenant } from './reading'
import { mayIn, projectRoles, type ProjectRole } from './roles'
import { ServiceAccounts } from './ServiceAccounts'

/** ProjectPage is one project: who works in it, people and programs, how it rents, and where it is told what happens. */
export default function ProjectPage() {
  const projectId = useParam('projectId')
  const project = useProject(projectId)
  const p = project.data?.body
  const problem = project.error && <ProblemNote error={project.error} onRetry={() => void project.refetch()} />
  if (p) return <Shown key={projectId} project={p} etag={project.data?.etag ?? ''} problem={problem} />
  return problem ? <Page title="Project">{problem}</Page> : <Loading what="the project" />
}

function Shown({ project: p, etag, problem }: { project: Schemas['IdentityProjectView']; etag: string; problem: ReactNode }) {
  const me = useMe()
  const queries = useQueryClient()
  const tenant = useTenant(p.org_id)
  // The name and the version that the renaming is based on: those that were seen.
  const [renaming, setRenaming] = useState<{ name: string; etag: string }>()
  const may = (permission: Permission) => mayIn(me, permission, { orgId: p.org_id, projectId: p.project_id })
  const path = { project_id: p.project_id }
  const [search, change] = useSearchState()
  const where = { orgId: p.org_id, projectId: p.project_id }
  const tabs: Tab[] = [
    {
      key: 'who',
      title: 'Who works in it',
      body: () => (
        <div className="flex flex-col gap-4">
          {may('member:read') && (
            <Members
              title="People"
              lead="Those with a role in this project. Whoever administers the tenant may do everything here too."
              queryKey={['members', 'project', p.project_id]}
              roles={projectRoles}
              mayManage={may('member:manage')}
              list={(cursor) => got(api.GET('/api/v1/projects/{project_id}/members', { params: { path, query: { cursor, page_size: 100 } } }))}
              put={(user_id, role) => got(api.PUT('/api/v1/projects/{project_id}/members/{user_id}', { params: { path: { ...path, user_id } }, body: { role: role as ProjectRole } }))}
              remove={(user_id) => got(api.DELETE('/api/v1/projects/{project_id}/members/{user_id}', { params: { path: { ...path, user_id } } }))}
            />
          )}
          {may('service_account:read') && <ServiceAccounts projectId={p.project_id} mayManage={may('service_account:manage')} />}
          <ProjectKeys projectId={p.project_id} orgId={p.org_id} title="SSH keys" />
        </div>
      ),
    },
    {
      key: 'renting',
      title: 'Renting',
      body: () => (
        <div className="flex flex-col gap-4">
          {may('quota:read') && <Quotas of={where} />}
          <RentalSettings of={where} />
        </div>
      ),
    },
    ...(may('operation_policy:read') ? [{ key: 'operations', title: 'Operations', body: () => <Policies of={where} type={search.type ?? everyType} onType={(type) => change({ type: type === everyType ? undefined : type })} /> }] : []),
    ...(may('webhook:read') ? [{ key: 'webhooks', title: 'Webhooks', body: () => <Webhooks projectId={p.project_id} manages={may('webhook:manage')} /> }] : []),
  ]
  return (
    <Page
      back={<TextLink to={`/access/tenants/${p.org_id}`}>{tenant.data?.body.name ?? 'Tenant'}</TextLink>}
      title={p.name}
      actions={may('project:update') && <Button onClick={() => setRenaming({ name: p.name, etag })}>Rename …</Button>}
    >
      {problem}
      <Card>
        <Facts
          of={[
            ['Name for machines', <Code key="s">{p.slug}</Code>],
            ['Id', <Code key="i">{p.project_id}</Code>],
            ['Made', <When key="c" at={p.created_at} />],
          ]}
        />
      </Card>
      <Tabs label="Project" tabs={tabs} shown={search.tab ?? 'who'} onShow={(tab) => change({ tab: tab === 'who' ? undefined : tab })} />
      {renaming && (
        <Rename
          what="project"
          before={renaming.name}
          rename={(name) => got(api.PATCH('/api/v1/projects/{project_id}', { params: { path, header: { 'If-Match': renaming.etag } }, body: { name } }))}
          onDone={() => {
            say('The project is renamed.')
            void queries.invalidateQueries({ queryKey: ['projects'] })
          }}
          onClose={() => setRenaming(undefined)}
        />
      )}
    </Page>
  )
}
