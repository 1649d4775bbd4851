import { useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api, got } from '../../api/client'
import { usePages } from '../../api/pages'
import { useSearchState } from '../../app/location'
import { useMay } from '../../app/session'
import { Badge, Button, Empty, Loading, Page } from '../../ui/basics'
import { ConfirmDialog } from '../../ui/confirm'
import { SelectField } from '../../ui/form'
import { money } from '../../ui/money'
import { ProblemNote } from '../../ui/problem'
import { RowButton } from '../../ui/rowbutton'
import { Table, type Column } from '../../ui/table'
import { useNow, When } from '../../ui/time'
import { say } from '../../ui/toast'
import { useOffered } from '../sku/offered'
import { mayWithdraw, meterWords, stands, type Price } from './price'
import { SetPrice } from './SetPrice'

/** Prices are what SKUs cost, cost before, and will cost. */
export default function Prices() {
  const may = useMay()
  const queries = useQueryClient()
  const now = useNow()
  const [search, change] = useSearchState()
  const [setting, setSetting] = useState(false)
  const [withdrawing, setWithdrawing] = useState<Price>()
  const { skus } = useOffered()
  const sku = search.sku || undefined
  const pages = usePages(['prices', sku], (cursor) => got(api.GET('/api/v1/admin/prices', { params: { query: { sku, cursor, page_size: 100 } } })))
  const manages = may('price:manage')
  const anew = (text: string) => {
    say(text)
    for (const key of ['prices', 'skus']) void queries.invalidateQueries({ queryKey: [key] })
  }
  const set = manages && (
    <Button look="primary" onClick={() => setSetting(true)}>
      Set a price …
    </Button>
  )
  return (
    <Page title="Prices" lead="The price per hour of one GPU, or of one machine without GPUs. A price in force cannot be changed, only replaced by a new one. Existing allocations keep their price unless their terms follow this list. Charged reservations keep theirs." actions={set}>
      <div className="grid gap-3 sm:grid-cols-3 lg:grid-cols-5">
        <SelectField label="SKU" value={sku ?? ''} onChange={(v) => change({ sku: v || undefined })} options={[{ value: '', label: 'all' }, ...skus.map((s) => ({ value: s.sku_id, label: s.display_name }))]} />
      </div>
      {pages.error && <ProblemNote error={pages.error} onRetry={pages.retry} />}
      {pages.loading && <Loading what="prices" />}
      {!pages.loading && !(pages.error && pages.rows.length === 0) && (
        <Table
          label="Prices"
          columns={columnsFor(now, manages ? setWithdrawing : undefined)}
          rows={pages.rows}
          rowKey={(p) => p.price_id}
          more={pages.more}
          stale={pages.stale}
          empty={<Empty title="There is no price yet" action={set}>A SKU is rented only in currencies in which it has a price.</Empty>}
        />
      )}
      {setting && <SetPrice sku={sku} onDone={anew} onClose={() => setSetting(false)} />}
      {withdrawing && (
        <ConfirmDialog
          title={`Withdraw the price of ${withdrawing.sku}`}
          does="Withdraw it"
          danger
          act={() => got(api.DELETE('/api/v1/admin/prices/{price_id}', { params: { path: { price_id: withdrawing.price_id } } }))}
          onDone={() => anew('The price is withdrawn.')}
          onClose={() => setWithdrawing(undefined)}
        >
          <p>
            {money(withdrawing.price_minor, withdrawing.currency)} for an hour does not begin <When at={withdrawing.valid_from} exactly />. The present price stays in force.
          </p>
        </ConfirmDialog>
      )}
    </Page>
  )
}

function columnsFor(now: number, onWithdraw?: (p: Price) => void): Column<Price>[] {
  return [
    { key: 'sku', title: 'SKU', width: 'minmax(12rem,1fr)', cell: (p) => p.sku },
    { key: 'of', title: 'Of', width: '9rem', cell: (p) => meterWords(p.meter) },
    { key: 'price', title: 'GPU hour', width: '9rem', align: 'right', cell: (p) => money(p.price_minor, p.currency) },
    { key: 'stands', title: 'State', width: '6.5rem', cell: (p) => <Badge tone={stands(p, now).tone}>{stands(p, now).word}</Badge> },
    { key: 'from', title: 'Begins', width: 'minmax(13rem,1fr)', cell: (p) => <When at={p.valid_from} exactly /> },
    { key: 'until', title: 'Ends', width: 'minmax(13rem,1fr)', cell: (p) => (p.valid_until ? <When at={p.valid_until} exactly /> : 'open-ended') },
    { key: 'reason', title: 'Reason', width: 'minmax(10rem,1fr)', cell: (p) => <span title={p.reason}>{p.reason}</span> },
    ...(onWithdraw ? [{ key: 'actions', title: 'Actions', width: '7rem', cell: (p: Price) => mayWithdraw(p, now) && <RowButton text="Withdraw" label={`Withdraw ${money(p.price_minor, p.currency)} of ${p.sku}`} onClick={() => onWithdraw(p)} /> }] : []),
  ]
}
