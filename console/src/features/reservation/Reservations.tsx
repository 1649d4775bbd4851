import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { api, got } from '../../api/client'
import { usePages } from '../../api/pages'
import { useSearchState } from '../../app/location'
import { useMay } from '../../app/session'
import { Badge, Button, Empty, Loading, Note, Page, TextLink } from '../../ui/basics'
import { SelectField } from '../../ui/form'
import { ProblemNote } from '../../ui/problem'
import { Table, type Column } from '../../ui/table'
import { When } from '../../ui/time'
import { NewReservation } from './NewReservation'
import { Owner } from './Owner'
import { current, shortOnes, stateTone, states, type Reservation, type ReservationState } from './reservation'

const columns: Column<Reservation>[] = [
  { key: 'for', title: 'Kept for', width: 'minmax(11rem,1.2fr)', cell: (r) => <TextLink to={`/reservations/${r.reservation_id}`}><Owner of={r} /></TextLink> },
  { key: 'state', title: 'State', width: '7rem', cell: (r) => <Badge tone={stateTone(r)}>{r.state}</Badge> },
  { key: 'sku', title: 'SKU', width: 'minmax(10rem,1fr)', cell: (r) => r.sku },
  { key: 'nodes', title: 'Nodes', width: '5rem', align: 'right', cell: (r) => r.nodes },
  { key: 'used', title: 'Rented', width: '5rem', align: 'right', cell: (r) => (r.state === 'active' ? r.used : '') },
  { key: 'held', title: 'Kept free', width: '6rem', align: 'right', cell: (r) => (r.state === 'active' ? r.held : '') },
  { key: 'short', title: 'Missing', width: '6rem', align: 'right', cell: (r) => (r.short_by > 0 ? <Badge tone="warn">{r.short_by}</Badge> : r.state === 'active' ? 0 : '') },
  { key: 'from', title: 'Begins', width: '8rem', cell: (r) => <When at={r.starts_at} /> },
  { key: 'until', title: 'Ends', width: '8rem', cell: (r) => <When at={r.ends_at} /> },
]

const now = 'now'
const all = 'all'

const wanted = (filter: string | undefined): ReservationState[] | undefined => (filter === all ? undefined : filter ? states.filter((s) => s === filter) : current)

/** Reservations is what is kept for tenants and projects, how it is used, and what is missing. */
export default function Reservations() {
  const may = useMay()
  const navigate = useNavigate()
  const [search, change] = useSearchState()
  const [making, setMaking] = useState(false)
  const state = wanted(search.state)
  const pages = usePages(['reservations', 'list', search.state], (cursor) => got(api.GET('/api/v1/reservations', { params: { query: { state, cursor, page_size: 100 } }, querySerializer: { array: { style: 'form', explode: false } } })), { refetchInterval: 15_000 })
  const manages = may('reservation:manage')
  const short = shortOnes(pages.rows)
  const make = manages && (
    <Button look="primary" onClick={() => setMaking(true)}>
      Reserve nodes …
    </Button>
  )
  return (
    <Page title="Reservations" lead="A reservation keeps a number of nodes for a tenant or a project in a time window. Only its owner can rent them during that time." actions={make}>
      <div className="grid gap-3 sm:grid-cols-3 lg:grid-cols-5">
        <SelectField label="State" value={search.state ?? now} onChange={(v) => change({ state: v === now ? undefined : v })} options={[{ value: now, label: 'current and upcoming' }, { value: all, label: 'all, also those that ended' }, ...states]} />
      </div>
      {short.length > 0 && (
        <Note tone="warn" title={short.length === 1 ? 'One reservation lacks nodes' : `${short.length} reservations lack nodes`}>
          There are not enough free nodes that fit. Nothing that is rented is taken away: nodes are kept as they become free.
        </Note>
      )}
      {pages.error && <ProblemNote error={pages.error} onRetry={pages.retry} />}
      {pages.loading && <Loading what="reservations" />}
      {!pages.loading && !(pages.error && pages.rows.length === 0) && (
        <Table
          label="Reservations"
          columns={columns}
          rows={pages.rows}
          rowKey={(r) => r.reservation_id}
          onOpen={(r) => void navigate({ to: `/reservations/${r.reservation_id}` })}
          more={pages.more}
          stale={pages.stale}
          empty={
            <Empty title={search.state ? 'No reservation has this state' : manages ? 'Nothing is reserved' : 'Nothing is reserved for you'} action={make}>
              {manages ? 'Reserve nodes to keep them for a tenant or a project for a time.' : 'Operators reserve nodes. Ask them where you need capacity at a certain time.'}
            </Empty>
          }
        />
      )}
      {making && <NewReservation onClose={() => setMaking(false)} />}
    </Page>
  )
}
