import { useState } from 'react'
import { api, got, type Schemas } from '../../api/client'
import { usePages } from '../../api/pages'
import { useMay } from '../../app/session'
import { Button, Empty, Loading } from '../../ui/basics'
import { ProblemNote } from '../../ui/problem'
import { RowButton } from '../../ui/rowbutton'
import { Table, type Column } from '../../ui/table'
import { When } from '../../ui/time'
import { DeleteBundle, RollBack, UploadBundle, UseBundle } from './BundleDialogs'
import type { Site } from './siteQueries'

type Bundle = Schemas['SiteBundleView']

const columns: Column<Bundle>[] = [
  { key: 'ref', title: 'Bundle', cell: (b) => <span className="font-mono text-xs">{b.ref}</span> },
  { key: 'used', title: 'Used by', cell: (b) => (b.used_by.length > 0 ? b.used_by.join(', ') : <span className="text-muted">no profile</span>) },
  { key: 'size', title: 'Bytes', width: '7rem', cell: (b) => b.size },
  {
    key: 'sha256',
    title: 'SHA-256',
    cell: (b) => (
      <span className="font-mono text-xs" title={b.sha256}>
        {b.sha256.slice(0, 16)}…
      </span>
    ),
  },
  { key: 'added', title: 'Added', width: '8rem', cell: (b) => <When at={b.created_at} /> },
]

type Asked = { what: 'upload' | 'back' } | { what: 'use' | 'delete'; bundle: Bundle }

/** Bundles are the programs that machines of a site run at their first boot. */
export function Bundles({ site }: { site: Site }) {
  const rows = usePages(['sites', site.site_id, 'bundles'], (cursor) =>
    got(api.GET('/api/v1/admin/maas-sites/{site_id}/bundles', { params: { path: { site_id: site.site_id }, query: { cursor, page_size: 200 } } })),
  )
  const may = useMay()
  const [asked, setAsked] = useState<Asked>()
  const close = () => setAsked(undefined)
  const upload = may('site_bundle:manage') && <Button onClick={() => setAsked({ what: 'upload' })}>Upload a bundle …</Button>
  const doing: Column<Bundle> = {
    key: 'do',
    title: 'Do',
    width: '12rem',
    cell: (b) => (
      <span className="flex gap-2">
        <RowButton label={`Use ${b.ref}`} text="Use …" onClick={() => setAsked({ what: 'use', bundle: b })} />
        {may('site_bundle:manage') && b.used_by.length === 0 && <RowButton label={`Delete ${b.ref}`} text="Delete …" onClick={() => setAsked({ what: 'delete', bundle: b })} />}
      </span>
    ),
  }
  return (
    <div className="flex flex-col gap-4">
      <div className="flex flex-wrap items-center justify-between gap-2">
        <p className="max-w-3xl text-sm text-muted">Programs that machines run as root at their first boot. A version never changes; a profile names one by its digest.</p>
        <div className="flex flex-wrap gap-2">
          {may('site_profile:manage') && rows.rows.length > 0 && <Button onClick={() => setAsked({ what: 'back' })}>Roll a profile back …</Button>}
          {upload}
        </div>
      </div>
      {rows.error && <ProblemNote error={rows.error} onRetry={rows.retry} />}
      {rows.loading && <Loading what="bundles" />}
      {!rows.loading && !(rows.error && rows.rows.length === 0) && (
        <Table
          label="Bundles"
          columns={may('site_profile:manage') ? [...columns, doing] : columns}
          rows={rows.rows}
          rowKey={(b) => b.bundle_id}
          more={rows.more}
          stale={rows.stale}
          empty={
            <Empty title="No bundles yet" action={upload}>
              A bundle is a program that machines run as root at their first boot. An administrator of the platform uploads one, here or with <code>gpuaas site bundle upload {site.name} NAME@VERSION FILE</code>.
            </Empty>
          }
        />
      )}
      {asked?.what === 'upload' && <UploadBundle site={site} onClose={close} />}
      {asked?.what === 'back' && <RollBack site={site} onClose={close} />}
      {asked?.what === 'use' && <UseBundle site={site} bundle={asked.bundle} onClose={close} />}
      {asked?.what === 'delete' && <DeleteBundle site={site} bundle={asked.bundle} onClose={close} />}
    </div>
  )
}
