import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api, got, type Schemas } from '../../api/client'
import { usePages } from '../../api/pages'
import { useSearchState } from '../../app/location'
import { useMay } from '../../app/session'
import { Badge, Button, Empty, Loading, Page, TextLink } from '../../ui/basics'
import { SelectField } from '../../ui/form'
import { money } from '../../ui/money'
import { ProblemNote } from '../../ui/problem'
import { Table, type Column } from '../../ui/table'
import { say } from '../../ui/toast'
import { ConfirmDialog } from '../../ui/confirm'
import { RowButton } from '../../ui/rowbutton'
import { ifMatch } from '../site/siteQueries'
import { fleetQuery } from '../site/siteStanding'
import { EditSku, NewSku } from './SkuForm'

type Sku = Schemas['SkuView']
type Asked = { what: 'new' } | { what: 'edit' | 'status' | 'delete'; sku: Sku }

/** Skus are the kinds of machines that are offered. */
export default function Skus() {
  const may = useMay()
  const [search, change] = useSearchState()
  const [asked, setAsked] = useState<Asked>()
  const status = search.status === 'active' || search.status === 'disabled' ? search.status : undefined
  const skus = usePages(['skus', 'list', status], (cursor) => got(api.GET('/api/v1/admin/skus', { params: { query: { cursor, status, page_size: 200 } } })))
  const fleet = useQuery({ ...fleetQuery, enabled: may('node:read') })
  const nodes = new Map(fleet.data?.skus.map((s) => [s.sku, s.total]))
  const manage = may('sku:manage')
  const add = manage && (
    <Button look="primary" onClick={() => setAsked({ what: 'new' })}>
      New SKU
    </Button>
  )
  return (
    <Page title="SKUs" lead="A SKU is a kind of machine as it is offered: its GPUs, how it is rented, and its price." actions={add}>
      <div className="w-40">
        <SelectField label="Status" value={status ?? ''} onChange={(v) => change({ status: v })} options={[{ value: '', label: 'any' }, 'active', 'disabled']} />
      </div>
      {skus.error && <ProblemNote error={skus.error} onRetry={skus.retry} />}
      {skus.loading && <Loading what="SKUs" />}
      {!skus.loading && !(skus.error && skus.rows.length === 0) && (
        <Table
          label="SKUs"
          columns={columnsFor(fleet.data ? nodes : undefined, manage ? setAsked : undefined)}
          rows={skus.rows}
          rowKey={(s) => s.sku_id}
          more={skus.more}
          stale={skus.stale}
          empty={
            <Empty title={status ? `No SKU is ${status}` : 'There is no SKU yet'} action={add}>
              Every node is of a SKU. Create one before machines are onboarded.
            </Empty>
          }
        />
      )}
      {asked && <Asking asked={asked} onClose={() => setAsked(undefined)} />}
    </Page>
  )
}

function columnsFor(nodes?: Map<string, number>, ask?: (asked: Asked) => void): Column<Sku>[] {
  const actions = (s: Sku) => (
    <span className="-ml-1.5 flex">
      <RowButton text="Edit" label={`Edit ${s.sku_id}`} onClick={() => ask?.({ what: 'edit', sku: s })} />
      <RowButton text={s.status === 'active' ? 'Disable' : 'Enable'} label={`${s.status === 'active' ? 'Disable' : 'Enable'} ${s.sku_id}`} onClick={() => ask?.({ what: 'status', sku: s })} />
      <RowButton text="Delete" label={`Delete ${s.sku_id}`} onClick={() => ask?.({ what: 'delete', sku: s })} />
    </span>
  )
  return [
    { key: 'sku', title: 'SKU', width: 'minmax(12.75rem, 1fr)', cell: (s) => <span className="font-medium" title={s.sku_id}>{s.sku_id}</span> },
    { key: 'name', title: 'Name', width: 'minmax(16rem, 1.4fr)', cell: (s) => <span title={s.display_name}>{s.display_name}</span> },
    { key: 'status', title: 'Status', width: '5.5rem', cell: (s) => <Badge tone={s.status === 'active' ? 'ok' : 'warn'}>{s.status}</Badge> },
    { key: 'gpus', title: 'GPUs', width: '7.25rem', cell: (s) => (s.gpus_total === 0 ? 'none' : `${s.gpus_total} × ${s.gpu_model}`) },
    { key: 'shape', title: 'Rented (counts)', width: '12rem', cell: (s) => `${s.capacity_shape === 'node' ? 'whole' : 'by the GPU'} (${s.allowed_counts.join(', ')})` },
    { key: 'price', title: 'GPU hour', width: '5.75rem', align: 'right', cell: (s) => money(s.price_minor, s.price_currency) },
    {
      key: 'nodes',
      title: 'Nodes',
      width: '4rem',
      align: 'right',
      cell: (s) => (nodes ? <NodesOfSku sku={s.sku_id} total={nodes.get(s.sku_id) ?? 0} /> : '–'),
    },
    ...(ask ? [{ key: 'actions', title: 'Actions', width: '9.75rem', cell: actions }] : []),
  ]
}

function NodesOfSku({ sku, total }: { sku: string; total: number }) {
  if (total === 0) return <>0</>
  return (
    <TextLink to="/nodes" search={{ sku }}>
      {total}
    </TextLink>
  )
}

function Asking({ asked, onClose }: { asked: Asked; onClose: () => void }) {
  const queries = useQueryClient()
  const done = (text: string) => {
    void queries.invalidateQueries({ queryKey: ['skus'] })
    say(text)
  }
  if (asked.what === 'new') return <NewSku onClose={onClose} onDone={done} />
  const { sku } = asked
  const path = { sku_id: sku.sku_id }
  if (asked.what === 'edit') return <EditSku sku={sku} onClose={onClose} onDone={done} />
  if (asked.what === 'delete') {
    return (
      <ConfirmDialog
        title={`Delete SKU ${sku.sku_id}`}
        does="Delete SKU"
        danger
        confirm={sku.sku_id}
        act={() => got(api.DELETE('/api/v1/admin/skus/{sku_id}', { params: { path } }))}
        onDone={() => done(`SKU ${sku.sku_id} is deleted.`)}
        onClose={onClose}
      >
        <p>It is refused while nodes are of this SKU. The id is never used again; to stop offering it for a while, disable it instead.</p>
      </ConfirmDialog>
    )
  }
  const disable = sku.status === 'active'
  return (
    <ConfirmDialog
      title={`${disable ? 'Disable' : 'Enable'} SKU ${sku.sku_id}`}
      does={disable ? 'Disable' : 'Enable'}
      act={() => got(api.PATCH('/api/v1/admin/skus/{sku_id}', { params: { path, header: ifMatch(sku) }, body: { status: disable ? 'disabled' : 'active' } }))}
      onDone={() => done(`SKU ${sku.sku_id} is ${disable ? 'disabled' : 'enabled'}.`)}
      onClose={onClose}
    >
      <p>{disable ? 'It keeps its nodes and gets no new ones: onboarding machines of this SKU is refused. You can enable it again at any time.' : 'Machines of this SKU can be onboarded again.'}</p>
    </ConfirmDialog>
  )
}
