import { useQueryClient } from '@tanstack/react-query'
import { useCallback, useState } from 'react'
import { api, got, type Schemas } from '../../api/client'
import { usePages } from '../../api/pages'
import { useSearchState } from '../../app/location'
import { useMay } from '../../app/session'
import { Button, Empty, Loading } from '../../ui/basics'
import { ProblemNote } from '../../ui/problem'
import { Table, type Column } from '../../ui/table'
import { When } from '../../ui/time'
import { say } from '../../ui/toast'
import { ConfirmDialog } from '../../ui/confirm'
import { FilterText } from '../../ui/filtertext'
import { RoceImport } from './RoceImport'
import { RowButton } from '../../ui/rowbutton'
import type { Site } from './siteQueries'

type Assignment = Schemas['SiteAssignmentView']

/** RoceTable is which address each RoCE interface of the machines gets. */
export function RoceTable({ site }: { site: Site }) {
  const [search, change] = useSearchState()
  const [importing, setImporting] = useState(false)
  const [leaving, setLeaving] = useState<Assignment>()
  const queries = useQueryClient()
  const manage = useMay()('site:manage')
  const { hostname, interface: iface } = search
  const findNode = useCallback((v: string) => change({ hostname: v }), [change])
  const findInterface = useCallback((v: string) => change({ interface: v }), [change])
  const rows = usePages(['sites', site.site_id, 'roce', hostname, iface], (cursor) =>
    got(api.GET('/api/v1/admin/maas-sites/{site_id}/roce-assignments', { params: { path: { site_id: site.site_id }, query: { cursor, page_size: 200, hostname, interface: iface } } })),
  )
  const columns: Column<Assignment>[] = [
    { key: 'hostname', title: 'Node', cell: (r) => <span className="font-medium">{r.hostname}</span> },
    { key: 'interface', title: 'Interface', cell: (r) => <span className="font-mono text-xs">{r.interface}</span> },
    { key: 'ipv4_cidr', title: 'Address', width: 'minmax(9rem, 1fr)', cell: (r) => <span className="font-mono text-xs">{r.ipv4_cidr}</span> },
    { key: 'mtu', title: 'MTU', width: '9rem', cell: (r) => r.mtu ?? <span className="text-muted">system’s choice</span> },
    { key: 'updated', title: 'Changed', width: '8rem', cell: (r) => <When at={r.updated_at} /> },
    ...(manage ? [{ key: 'delete', title: 'Action', width: '6rem', cell: (r: Assignment) => <span className="-ml-1.5 flex"><RowButton label={`Remove ${r.interface} of ${r.hostname}`} onClick={() => setLeaving(r)} text="Remove" /></span> }] : []),
  ]
  const done = (text: string) => {
    void queries.invalidateQueries({ queryKey: ['sites', site.site_id, 'roce'] })
    say(text)
  }
  const filtered = !!(hostname || iface)
  const add = manage && (
    <Button look="primary" onClick={() => setImporting(true)}>
      Paste or import rows
    </Button>
  )
  return (
    <div className="flex flex-col gap-4">
      {(filtered || rows.rows.length > 0) && (
        <div className="flex flex-wrap items-end gap-3">
          <FilterText label="Node" value={hostname ?? ''} onChange={findNode} placeholder="exact host name" />
          <FilterText label="Interface" value={iface ?? ''} onChange={findInterface} placeholder="exact name" />
          <div className="ml-auto">{add}</div>
        </div>
      )}
      {rows.error && <ProblemNote error={rows.error} onRetry={rows.retry} />}
      {rows.loading && <Loading what="addresses" />}
      {!rows.loading && !(rows.error && rows.rows.length === 0) && (
        <Table
          label="RoCE addresses"
          columns={columns}
          rows={rows.rows}
          rowKey={(r) => r.assignment_id}
          more={rows.more}
          stale={rows.stale}
          empty={
            filtered ? (
              <Empty title="No interface has these names" action={<Button onClick={() => change({ hostname: undefined, interface: undefined })}>Show all</Button>}>
                Names are compared whole.
              </Empty>
            ) : (
              <Empty title="No RoCE addresses yet" action={add}>
                Machines get the addresses of this table when they are onboarded by a profile that sets up RoCE interfaces. Machines that are not in it are left without.
              </Empty>
            )
          }
        />
      )}
      {importing && <RoceImport site={site} onClose={() => setImporting(false)} onDone={done} />}
      {leaving && (
        <ConfirmDialog
          title="Remove a RoCE address"
          does="Remove"
          danger
          act={() => got(api.DELETE('/api/v1/admin/maas-sites/{site_id}/roce-assignments/{assignment_id}', { params: { path: { site_id: site.site_id, assignment_id: leaving.assignment_id } } }))}
          onDone={() => done(`The address of ${leaving.interface} of ${leaving.hostname} is removed.`)}
          onClose={() => setLeaving(undefined)}
        >
          <p>
            {leaving.interface} of <strong>{leaving.hostname}</strong> loses {leaving.ipv4_cidr} in this table. A machine that has the address keeps it until it is set up again.
          </p>
        </ConfirmDialog>
      )}
    </div>
  )
}
