import { useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { api, got, type Schemas } from '../../api/client'
import { usePages } from '../../api/pages'
import { useParam, useSearchState } from '../../app/location'
import { useMe, type Permission } from '../../app/session'
import { Button, Card, Code, Empty, Facts, LinkButton, Loading, Page, TextLink } from '../../ui/basics'
import { ProblemNote } from '../../ui/problem'
import { Table, type Column } from '../../ui/table'
import { Tabs, type Tab } from '../../ui/tabs'
import { When } from '../../ui/time'
import { say } from '../../ui/toast'
import { Policies } from '../policy/Policies'
import { everyType } from '../policy/policy'
import { Quotas } from '../quota/Quotas'
import { RentalSettings } from '../rentalsettings/RentalSettings'
import { Members } from './Members'
import { NewNamed, Rename } from './Naming'
import { useTenant } from './reading'
import { mayIn } from './roles'

type Project = Schemas['IdentityProjectView']

/** TenantPage is one tenant: who administers it, its projects, and how it rents. */
export default function TenantPage() {
  const orgId = useParam('orgId')
  const me = useMe()
  const queries = useQueryClient()
  // The name and the version that the renaming is based on: those that were seen.
  const [renaming, setRenaming] = useState<{ name: string; etag: string }>()
  const tenant = useTenant(orgId)
  const may = (permission: Permission) => mayIn(me, permission, { orgId })
  const t = tenant.data?.body
  const path = { org_id: orgId }
  const [search, change] = useSearchState()
  const tabs: Tab[] = [
    {
      key: 'projects',
      title: 'Projects',
      body: () => (
        <div className="flex flex-col gap-4">
          <Projects orgId={orgId} mayCreate={may('project:create')} />
          {/* A role in a project does not let one see who administers the tenant. */}
          {may('member:read') && (
            <Members
              title="Who administers it"
              lead="Their role holds in all projects of the tenant. Other roles are given in a project."
              queryKey={['members', 'tenant', orgId]}
              roles={['tenant_admin']}
              mayManage={may('member:manage')}
              list={(cursor) => got(api.GET('/api/v1/tenants/{org_id}/members', { params: { path, query: { cursor, page_size: 100 } } }))}
              put={(user_id) => got(api.PUT('/api/v1/tenants/{org_id}/members/{user_id}', { params: { path: { ...path, user_id } }, body: { role: 'tenant_admin' } }))}
              remove={(user_id) => got(api.DELETE('/api/v1/tenants/{org_id}/members/{user_id}', { params: { path: { ...path, user_id } } }))}
            />
          )}
        </div>
      ),
    },
    {
      key: 'renting',
      title: 'Renting',
      body: () => (
        <div className="flex flex-col gap-4">
          {may('quota:read') && <Quotas of={{ orgId }} />}
          <RentalSettings of={{ orgId }} />
        </div>
      ),
    },
    ...(may('operation_policy:read') ? [{ key: 'operations', title: 'Operations', body: () => <Policies of={{ orgId }} type={search.type ?? everyType} onType={(type) => change({ type: type === everyType ? undefined : type })} /> }] : []),
  ]
  return (
    <Page
      back={<TextLink to="/access" search={{ tab: 'tenants' }}>Tenants</TextLink>}
      title={t?.name ?? 'Tenant'}
      actions={
        t && (
          <>
            {may('audit:read') && <LinkButton to="/audit" search={{ target_id: orgId }}>Audit log</LinkButton>}
            {may('tenant:update') && <Button onClick={() => setRenaming({ name: t.name, etag: tenant.data?.etag ?? '' })}>Rename …</Button>}
          </>
        )
      }
    >
      {tenant.error && <ProblemNote error={tenant.error} onRetry={() => void tenant.refetch()} />}
      {tenant.isPending && <Loading what="the tenant" />}
      {t && (
        <>
          <Card>
            <Facts
              of={[
                ['Name for machines', <Code key="s">{t.slug}</Code>],
                ['Id', <Code key="i">{t.org_id}</Code>],
                ['Made', <When key="c" at={t.created_at} />],
                ['Changed', <When key="u" at={t.updated_at} />],
              ]}
            />
          </Card>
          <Tabs label="Tenant" tabs={tabs} shown={search.tab ?? 'projects'} onShow={(tab) => change({ tab: tab === 'projects' ? undefined : tab })} />
        </>
      )}
      {renaming && (
        <Rename
          what="tenant"
          before={renaming.name}
          rename={(name) => got(api.PATCH('/api/v1/tenants/{org_id}', { params: { path, header: { 'If-Match': renaming.etag } }, body: { name } }))}
          onDone={() => {
            say('The tenant is renamed.')
            void queries.invalidateQueries({ queryKey: ['tenants'] })
          }}
          onClose={() => setRenaming(undefined)}
        />
      )}
    </Page>
  )
}

const columns: Column<Project>[] = [
  { key: 'name', title: 'Project', width: 'minmax(10rem, 1fr)', cell: (p) => <TextLink to={`/access/projects/${p.project_id}`}>{p.name}</TextLink> },
  { key: 'slug', title: 'Name for machines', width: 'minmax(9rem, 1fr)', cell: (p) => <span className="font-mono text-xs">{p.slug}</span> },
  { key: 'created', title: 'Made', width: '8rem', cell: (p) => <When at={p.created_at} /> },
]

function Projects({ orgId, mayCreate }: { orgId: string; mayCreate: boolean }) {
  const navigate = useNavigate()
  const queries = useQueryClient()
  const [making, setMaking] = useState(false)
  const path = { org_id: orgId }
  const pages = usePages(['projects', 'of', orgId], (cursor) => got(api.GET('/api/v1/tenants/{org_id}/projects', { params: { path, query: { cursor, page_size: 100 } } })))
  return (
    <Card title="Projects" actions={mayCreate && <Button onClick={() => setMaking(true)}>New project …</Button>}>
      {pages.error && <ProblemNote error={pages.error} onRetry={pages.retry} />}
      {pages.loading && <Loading what="projects" />}
      {!pages.loading && !(pages.error && pages.rows.length === 0) && (
        <Table
          label="Projects"
          columns={columns}
          rows={pages.rows}
          rowKey={(p) => p.project_id}
          onOpen={(p) => void navigate({ to: `/access/projects/${p.project_id}` })}
          more={pages.more}
          empty={<Empty title="No project that you see">Ask whoever administers the tenant for a role in one.</Empty>}
        />
      )}
      {making && (
        <NewNamed
          title="New project"
          hint="A project keeps work, people and service accounts of the tenant apart from others."
          does="Create the project"
          create={(body) => got(api.POST('/api/v1/tenants/{org_id}/projects', { params: { path }, body }))}
          onDone={(name) => {
            say(`Project ${name} is created.`)
            void queries.invalidateQueries({ queryKey: ['projects'] })
          }}
          onClose={() => setMaking(false)}
        />
      )}
    </Card>
  )
}
