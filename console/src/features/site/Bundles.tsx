import { api, got, type Schemas } from '../../api/client'
import { usePages } from '../../api/pages'
import { Empty, Loading } from '../../ui/basics'
import { ProblemNote } from '../../ui/problem'
import { Table, type Column } from '../../ui/table'
import { When } from '../../ui/time'
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

/** Bundles are the programs that machines of a site run at their first boot. */
export function Bundles({ site }: { site: Site }) {
  const rows = usePages(['sites', site.site_id, 'bundles'], (cursor) =>
    got(api.GET('/api/v1/admin/maas-sites/{site_id}/bundles', { params: { path: { site_id: site.site_id }, query: { cursor, page_size: 200 } } })),
  )
  return (
    <div className="flex flex-col gap-4">
      {rows.error && <ProblemNote error={rows.error} onRetry={rows.retry} />}
      {rows.loading && <Loading what="bundles" />}
      {!rows.loading && !(rows.error && rows.rows.length === 0) && (
        <Table
          label="Bundles"
          columns={columns}
          rows={rows.rows}
          rowKey={(b) => b.bundle_id}
          more={rows.more}
          stale={rows.stale}
          empty={
            <Empty title="No bundles yet">
              A bundle is a program that machines run as root at their first boot. An administrator of the platform uploads one with <code>gpuaas site bundle upload {site.name} NAME@VERSION FILE</code>.
            </Empty>
          }
        />
      )}
    </div>
  )
}
