import { useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api, got } from '../../api/client'
import { enums } from '../../api/gen/enums'
import { usePages } from '../../api/pages'
import { useSearchState } from '../../app/location'
import { useMe } from '../../app/session'
import { Badge, Empty, Loading, TextLink } from '../../ui/basics'
import { ReasonDialog } from '../../ui/dialog'
import { SelectField } from '../../ui/form'
import { money } from '../../ui/money'
import { ProblemNote } from '../../ui/problem'
import { RowButton } from '../../ui/rowbutton'
import { Table, type Column } from '../../ui/table'
import { exact, When } from '../../ui/time'
import { say } from '../../ui/toast'
import { mayIn } from '../access/roles'
import { kindWords, mayCorrect, type Entry } from './entries'

const kinds = enums['list-ledger.kind']
const every = 'all'

/** Ledger is every change of what a tenant has left, the newest first. Nothing in it is ever changed. */
export function Ledger({ orgId }: { orgId: string }) {
  const me = useMe()
  const queries = useQueryClient()
  const [search, change] = useSearchState()
  const [correcting, setCorrecting] = useState<Entry>()
  const kind = kinds.find((k) => k === search.kind)
  const pages = usePages(['ledger', orgId, kind], (cursor) => got(api.GET('/api/v1/tenants/{org_id}/ledger', { params: { path: { org_id: orgId }, query: { kind, cursor, page_size: 100 } } })))
  const manages = mayIn(me, 'billing:manage', { orgId })
  return (
    <div className="flex flex-col gap-3">
      <div className="grid gap-3 sm:grid-cols-3 lg:grid-cols-5">
        <SelectField label="Entries" value={kind ?? every} onChange={(v) => change({ kind: v === every ? undefined : v })} options={[{ value: every, label: 'all' }, ...kinds.map((k) => ({ value: k, label: kindWords(k) }))]} />
      </div>
      {pages.error && <ProblemNote error={pages.error} onRetry={pages.retry} />}
      {pages.loading && <Loading what="the ledger" />}
      {!pages.loading && !(pages.error && pages.rows.length === 0) && (
        <Table
          label="Ledger"
          columns={columnsFor(manages ? setCorrecting : undefined)}
          rows={pages.rows}
          rowKey={(e) => e.entry_id}
          more={pages.more}
          stale={pages.stale}
          empty={<Empty title={kind ? 'There is no such entry' : 'Nothing is booked yet'}>{kind ? 'Choose other entries to see the rest.' : 'Use is booked every hour and when an allocation ends. Money is booked when it is added.'}</Empty>}
        />
      )}
      {correcting && (
        <ReasonDialog
          title={`Reverse: ${kindWords(correcting.kind)}, ${money(correcting.amount_minor, correcting.currency)}`}
          does="Reverse it"
          danger
          act={(reason) => got(api.POST('/api/v1/tenants/{org_id}/ledger/{entry_id}/corrections', { params: { path: { org_id: orgId, entry_id: correcting.entry_id } }, body: { reason } }))}
          onDone={() => {
            say('The entry is reversed.')
            for (const key of ['ledger', 'balances', 'usage']) void queries.invalidateQueries({ queryKey: [key] })
          }}
          onClose={() => setCorrecting(undefined)}
        >
          <p>A new entry of {money(-correcting.amount_minor, correcting.currency)} is booked and refers to this one, which stays unchanged. You can reverse an entry once; to undo that, reverse the correction. The tenant can read the reason.</p>
        </ReasonDialog>
      )}
    </div>
  )
}

function columnsFor(onCorrect?: (e: Entry) => void): Column<Entry>[] {
  return [
    { key: 'at', title: 'Booked', width: '7rem', cell: (e) => <When at={e.booked_at} /> },
    { key: 'kind', title: 'What', width: 'minmax(11rem,1fr)', cell: (e) => <span title={kindWords(e.kind)}>{kindWords(e.kind)}</span> },
    { key: 'amount', title: 'Amount', width: 'minmax(8rem,0.6fr)', align: 'right', cell: (e) => money(e.amount_minor, e.currency) },
    { key: 'about', title: 'For', width: 'minmax(14rem,1.4fr)', cell: (e) => <About entry={e} /> },
    { key: 'reason', title: 'Reason', width: 'minmax(10rem,1fr)', cell: (e) => <span title={e.reason}>{e.reason}</span> },
    ...(onCorrect ? [{ key: 'actions', title: 'Actions', width: '6rem', cell: (e: Entry) => mayCorrect(e) && <RowButton text="Reverse" label={`Reverse ${kindWords(e.kind)} of ${exact(e.booked_at)}`} onClick={() => onCorrect(e)} /> }] : []),
  ]
}

/** About says what an entry is for: the time of an allocation, what it is called elsewhere, or the entry that it reverses. */
function About({ entry: e }: { entry: Entry }) {
  return (
    <span className="inline-flex items-center gap-2">
      {e.corrected_by && <Badge tone="warn">reversed</Badge>}
      {e.corrects_entry_id && <span title={e.corrects_entry_id}>reverses {e.corrects_entry_id.slice(0, 8)}…</span>}
      {e.allocation_id && <TextLink to={`/allocations/${e.allocation_id}`}>allocation</TextLink>}
      {e.window_start && e.window_end && <span title={`${exact(e.window_start)} to ${exact(e.window_end)}`}>until {exact(e.window_end)}</span>}
      {e.reference}
    </span>
  )
}
