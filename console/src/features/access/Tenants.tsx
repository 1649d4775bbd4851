import { useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { api, got, type Schemas } from '../../api/client'
import { usePages } from '../../api/pages'
import { useMay } from '../../app/session'
import { Button, Empty, Loading, TextLink } from '../../ui/basics'
import { ProblemNote } from '../../ui/problem'
import { Table, type Column } from '../../ui/table'
import { When } from '../../ui/time'
import { say } from '../../ui/toast'
import { NewNamed } from './Naming'

type Tenant = Schemas['IdentityTenantView']

const columns: Column<Tenant>[] = [
  { key: 'name', title: 'Tenant', width: 'minmax(10rem, 1fr)', cell: (t) => <TextLink to={`/access/tenants/${t.org_id}`}>{t.name}</TextLink> },
  { key: 'slug', title: 'Name for machines', width: 'minmax(9rem, 1fr)', cell: (t) => <span className="font-mono text-xs">{t.slug}</span> },
  { key: 'id', title: 'Id', width: 'minmax(19rem, 1fr)', cell: (t) => <span className="font-mono text-xs text-muted">{t.org_id}</span> },
  { key: 'created', title: 'Made', width: '8rem', cell: (t) => <When at={t.created_at} /> },
]

/** Tenants is the tenants that you see. */
export function Tenants() {
  const may = useMay()
  const navigate = useNavigate()
  const queries = useQueryClient()
  const [making, setMaking] = useState(false)
  const pages = usePages(['tenants', 'list'], (cursor) => got(api.GET('/api/v1/tenants', { params: { query: { cursor, page_size: 100 } } })))
  const make = may('tenant:create') && (
    <Button look="primary" onClick={() => setMaking(true)}>
      New tenant …
    </Button>
  )
  return (
    <div className="flex flex-col gap-3">
      {pages.rows.length > 0 && (
        <div className="flex flex-wrap items-center justify-between gap-3">
          <p className="text-sm text-muted">A tenant is whoever GPUs are provided to; its projects keep work apart.</p>
          {make}
        </div>
      )}
      {pages.error && <ProblemNote error={pages.error} onRetry={pages.retry} />}
      {pages.loading && <Loading what="tenants" />}
      {!pages.loading && !(pages.error && pages.rows.length === 0) && (
        <Table
          label="Tenants"
          columns={columns}
          rows={pages.rows}
          rowKey={(t) => t.org_id}
          onOpen={(t) => void navigate({ to: `/access/tenants/${t.org_id}` })}
          more={pages.more}
          stale={pages.stale}
          empty={
            <Empty title={make ? 'There is no tenant yet' : 'You are in no tenant yet'} action={make}>
              {make ? 'A tenant is whoever GPUs are provided to. Create one, then give people roles in it.' : 'Give your id, under You, to whoever administers a tenant or project.'}
            </Empty>
          }
        />
      )}
      {making && (
        <NewNamed
          title="New tenant"
          hint="Its project default is made with it."
          does="Create the tenant"
          create={(body) => got(api.POST('/api/v1/admin/tenants', { body }))}
          onDone={(name) => {
            say(`Tenant ${name} is created.`)
            void queries.invalidateQueries({ queryKey: ['tenants'] })
          }}
          onClose={() => setMaking(false)}
        />
      )}
    </div>
  )
}
