import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api, got, type Schemas } from '../../api/client'
import { usePages } from '../../api/pages'
import { useSearchState } from '../../app/location'
import { useMe } from '../../app/session'
import { Badge, Button, Card, Empty, Facts, Loading } from '../../ui/basics'
import { ConfirmDialog } from '../../ui/confirm'
import { money } from '../../ui/money'
import { ProblemNote } from '../../ui/problem'
import { Table, type Column } from '../../ui/table'
import { exact, When } from '../../ui/time'
import { say } from '../../ui/toast'
import { mayIn } from '../access/roles'
import { monthToClose, statementFiles } from './closing'
import { kindWords } from './entries'
import { accountQuery, statementQuery } from './queries'
import { hours, monthOf } from './usage'

type Statement = Schemas['StatementView']
type Document = Schemas['StatementDocument']

/** Statements are the months that are closed, as they were issued. Nothing in them is ever changed. */
export function Statements({ orgId, now }: { orgId: string; /** The month that it is now. */ now: string }) {
  const me = useMe()
  const queries = useQueryClient()
  const [search, change] = useSearchState()
  const [closing, setClosing] = useState<string>()
  const path = { org_id: orgId }
  const account = useQuery(accountQuery(orgId))
  const a = account.data
  const pages = usePages(['statements', orgId], (cursor) => got(api.GET('/api/v1/tenants/{org_id}/statements', { params: { path, query: { cursor, page_size: 100 } } })), { enabled: !!a })
  if (account.isPending || (a && pages.loading)) return <Loading what="statements" />
  if (a === undefined) return <ProblemNote error={account.error} onRetry={() => void account.refetch()} />
  if (a === null) return <Empty title="There are no statements without a billing account">The first statement is issued at the end of the month in which an account is opened.</Empty>
  const next = mayIn(me, 'billing:manage', { orgId }) && !pages.error ? monthToClose(pages.rows[0]?.period_end, a.created_at, now) : undefined
  const open = search.statement
  return (
    <div className="flex flex-col gap-3">
      {pages.error && <ProblemNote error={pages.error} onRetry={pages.retry} />}
      {next && (
        <div>
          <Button onClick={() => setClosing(next)}>Close {next} …</Button>
        </div>
      )}
      {!(pages.error && pages.rows.length === 0) && (
        <Table label="Statements" columns={columns} rows={pages.rows} rowKey={(s) => s.statement_id} onOpen={(s) => change({ statement: s.statement_id === open ? undefined : s.statement_id })} more={pages.more} empty={<Empty title="No month is closed yet">Each month is closed automatically some hours after it ends. What this month costs so far is under Cost.</Empty>} />
      )}
      {open && <OneStatement orgId={orgId} statementId={open} onClose={() => change({ statement: undefined })} />}
      {closing && (
        <ConfirmDialog
          title={`Close ${closing}`}
          does="Close it"
          act={() => got(api.POST('/api/v1/tenants/{org_id}/statements', { params: { path }, body: { month: closing } }))}
          onDone={() => {
            say(`${closing} is closed.`)
            void queries.invalidateQueries({ queryKey: ['statements'] })
          }}
          onClose={() => setClosing(undefined)}
        >
          <p>The statement gets its number and never changes again. Later entries go to a later statement. If you do not close the month, gpuaas does so some hours after it ends.</p>
        </ConfirmDialog>
      )}
    </div>
  )
}

const columns: Column<Statement>[] = [
  { key: 'month', title: 'Month', width: '6rem', cell: (s) => monthOf(Date.parse(s.period_start)) },
  { key: 'label', title: 'Statement', width: 'minmax(9rem,1fr)', cell: (s) => <span className="font-medium">{s.label}</span> },
  { key: 'total', title: 'Cost', width: 'minmax(8rem,0.8fr)', align: 'right', cell: (s) => money(s.usage_minor - s.relief_minor, s.currency) },
  { key: 'in', title: 'Paid in', width: 'minmax(8rem,0.8fr)', align: 'right', cell: (s) => money(s.money_in_minor, s.currency) },
  { key: 'closing', title: 'Left', width: 'minmax(8rem,0.8fr)', align: 'right', cell: (s) => money(s.closing_minor, s.currency) },
  { key: 'state', title: 'State', width: '7rem', cell: (s) => <span className="inline-flex gap-1"><Badge tone="ok">issued</Badge>{s.late_entries > 0 && <Badge tone="warn" title={`${s.late_entries} entries are of months before`}>late</Badge>}</span> },
  { key: 'issued', title: 'Issued', width: '7rem', cell: (s) => <When at={s.issued_at} /> },
]

/** OneStatement is one month as it was frozen, with its lines and its files. */
function OneStatement({ orgId, statementId, onClose }: { orgId: string; statementId: string; onClose: () => void }) {
  const read = useQuery(statementQuery(orgId, statementId))
  if (read.isPending) return <Loading what="the statement" />
  if (!read.data) return <ProblemNote error={read.error} onRetry={() => void read.refetch()} />
  const d = read.data
  const as = (minor: number) => money(minor, d.currency)
  return (
    <Card title={`${d.label}, ${monthOf(Date.parse(d.period_start))}`} actions={<Button onClick={onClose}>Close</Button>}>
      <div className="flex flex-col gap-4">
        <Files of={d} />
        <Facts
          of={[
            ['Opening balance', as(d.opening_minor)],
            ['Usage', as(-d.usage_minor)],
            ...(d.unused_minor ? [['Of it reserved, unused', as(-d.unused_minor)] as [string, string]] : []),
            ['Compensated', as(d.relief_minor)],
            ['Corrected', as(d.corrections_minor)],
            ['Paid in', as(d.money_in_minor)],
            ['Closing balance', <strong key="left">{as(d.closing_minor)}</strong>],
            ['Issued', exact(d.issued_at)],
          ]}
        />
        <Table label="What was used" columns={lineColumns(d)} rows={d.lines} rowKey={(l) => `${l.allocation_id} ${l.from}`} height={d.lines.length > 12 ? '28rem' : undefined} empty={<Empty title="Nothing was used in this month" />} />
        {d.reserved && d.reserved.length > 0 && <Table label="What was reserved and not used" columns={reservedColumns(d)} rows={d.reserved} rowKey={(l) => `${l.reservation_id} ${l.from}`} />}
        {d.reliefs.length > 0 && <Table label="Compensation" columns={reliefColumns(d)} rows={d.reliefs} rowKey={(r) => r.entry_id} />}
        {d.money_in.length > 0 && <Table label="What came in" columns={moneyColumns(d)} rows={d.money_in} rowKey={(m) => m.entry_id} />}
      </div>
    </Card>
  )
}

const lineColumns = (d: Document): Column<Document['lines'][number]>[] => [
  { key: 'name', title: 'Allocation', width: 'minmax(9rem,1fr)', cell: (l) => <span title={l.allocation_id}>{l.name || l.allocation_id.slice(0, 8)}{l.late ? ' (late)' : ''}</span> },
  { key: 'project', title: 'Project', width: 'minmax(7rem,0.7fr)', cell: (l) => l.project },
  { key: 'sku', title: 'SKU', width: 'minmax(9rem,1fr)', cell: (l) => l.sku },
  { key: 'hours', title: 'GPU hours', width: '7rem', align: 'right', cell: (l) => hours(l.seconds * l.units) },
  { key: 'amount', title: 'Cost', width: 'minmax(8rem,0.8fr)', align: 'right', cell: (l) => money(l.usage_minor, d.currency) },
]

const reservedColumns = (d: Document): Column<NonNullable<Document['reserved']>[number]>[] => [
  { key: 'reservation', title: 'Reservation', width: 'minmax(9rem,1fr)', cell: (l) => <span title={l.reservation_id}>{l.nodes} × {l.reservation_id.slice(0, 8)}{l.late ? ' (late)' : ''}</span> },
  { key: 'project', title: 'Project', width: 'minmax(7rem,0.7fr)', cell: (l) => l.project ?? 'all' },
  { key: 'sku', title: 'SKU', width: 'minmax(9rem,1fr)', cell: (l) => l.sku },
  { key: 'hours', title: 'Unused GPU hours', width: '9rem', align: 'right', cell: (l) => hours(l.node_seconds * l.units) },
  { key: 'amount', title: 'Cost', width: 'minmax(8rem,0.8fr)', align: 'right', cell: (l) => money(l.usage_minor, d.currency) },
]

const reliefColumns = (d: Document): Column<Document['reliefs'][number]>[] => [
  { key: 'until', title: 'Compensated until', width: '10rem', cell: (r) => exact(r.to) },
  { key: 'reason', title: 'Why', width: 'minmax(12rem,1fr)', cell: (r) => <span title={r.reason}>{r.reason}</span> },
  { key: 'amount', title: 'Amount', width: 'minmax(8rem,0.6fr)', align: 'right', cell: (r) => money(r.amount_minor, d.currency) },
]

const moneyColumns = (d: Document): Column<Document['money_in'][number]>[] => [
  { key: 'booked', title: 'Came in', width: '10rem', cell: (m) => exact(m.booked_at) },
  { key: 'kind', title: 'What', width: 'minmax(8rem,0.6fr)', cell: (m) => kindWords(m.kind) },
  { key: 'reference', title: 'Reference', width: 'minmax(10rem,1fr)', cell: (m) => <span title={m.reference}>{m.reference}</span> },
  { key: 'amount', title: 'Amount', width: 'minmax(8rem,0.6fr)', align: 'right', cell: (m) => money(m.amount_minor, d.currency) },
]

/** Files leads to a statement in its forms, which the control plane writes. */
function Files({ of: d }: { of: Document }) {
  return (
    <ul className="flex flex-wrap gap-3" aria-label="The statement as a file">
      {statementFiles(d).map(({ name, href }) => (
        <li key={name}>
          <a href={href} target="_blank" rel="noreferrer" aria-label={`${d.label} as ${name}`} className="text-accent underline decoration-current/40 underline-offset-2 hover:decoration-current">
            {name}
          </a>
        </li>
      ))}
    </ul>
  )
}
