import { useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api, got, type Schemas } from '../../api/client'
import { usePages } from '../../api/pages'
import { useMe } from '../../app/session'
import { Button, Empty, Loading } from '../../ui/basics'
import { ConfirmDialog } from '../../ui/confirm'
import { money } from '../../ui/money'
import { ProblemNote } from '../../ui/problem'
import { Table, type Column } from '../../ui/table'
import { When } from '../../ui/time'
import { say } from '../../ui/toast'
import { mayIn } from '../access/roles'
import { monthToClose } from './closing'
import { monthOf } from './usage'

type Statement = Schemas['StatementView']

/** Statements are the months that are closed, as they were issued. Nothing in them is ever changed. */
export function Statements({ orgId, now }: { orgId: string; /** The month that it is now. */ now: string }) {
  const me = useMe()
  const queries = useQueryClient()
  const [closing, setClosing] = useState<string>()
  const path = { org_id: orgId }
  const pages = usePages(['statements', orgId], (cursor) => got(api.GET('/api/v1/tenants/{org_id}/statements', { params: { path, query: { cursor, page_size: 100 } } })))
  const next = mayIn(me, 'billing:manage', { orgId }) && !pages.loading ? monthToClose(pages.rows[0]?.period_end, now) : undefined
  return (
    <div className="flex flex-col gap-3">
      {pages.error && <ProblemNote error={pages.error} onRetry={pages.retry} />}
      {pages.loading && <Loading what="statements" />}
      {next && (
        <div>
          <Button onClick={() => setClosing(next)}>Close {next} …</Button>
        </div>
      )}
      {!pages.loading && !(pages.error && pages.rows.length === 0) && (
        <Table label="Statements" columns={columns} rows={pages.rows} rowKey={(s) => s.statement_id} more={pages.more} empty={<Empty title="No month is closed yet">A month is closed some hours after its end, by itself. What this month costs so far is under Cost.</Empty>} />
      )}
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
          <p>The statement is numbered and never changed again. What is booked later goes to a later statement. It is done by itself some hours after the end of a month.</p>
        </ConfirmDialog>
      )}
    </div>
  )
}

const columns: Column<Statement>[] = [
  { key: 'label', title: 'Statement', width: 'minmax(9rem,1fr)', cell: (s) => <span className="font-medium">{s.label}</span> },
  { key: 'month', title: 'Month', width: '6rem', cell: (s) => monthOf(Date.parse(s.period_start)) },
  { key: 'opening', title: 'Before', width: 'minmax(8rem,0.8fr)', align: 'right', cell: (s) => money(s.opening_minor, s.currency) },
  { key: 'usage', title: 'Used', width: 'minmax(8rem,0.8fr)', align: 'right', cell: (s) => money(s.usage_minor, s.currency) },
  { key: 'back', title: 'Given back', width: 'minmax(8rem,0.8fr)', align: 'right', cell: (s) => money(s.relief_minor + s.corrections_minor, s.currency) },
  { key: 'in', title: 'Paid in', width: 'minmax(8rem,0.8fr)', align: 'right', cell: (s) => money(s.money_in_minor, s.currency) },
  { key: 'closing', title: 'Left', width: 'minmax(8rem,0.8fr)', align: 'right', cell: (s) => money(s.closing_minor, s.currency) },
  { key: 'issued', title: 'Issued', width: '7rem', cell: (s) => <When at={s.issued_at} /> },
  { key: 'files', title: 'As a file', width: '13rem', cell: (s) => <Files of={s} /> },
]

const forms = [
  { name: 'Page', form: '/html' },
  { name: 'CSV', form: '/csv' },
  { name: 'FOCUS', form: '/focus' },
  { name: 'JSON', form: '' },
]

/** Files leads to a statement in its forms, which the control plane writes. */
function Files({ of: s }: { of: Statement }) {
  return (
    <span className="inline-flex gap-2">
      {forms.map(({ name, form }) => (
        <a key={name} href={`/api/v1/tenants/${s.org_id}/statements/${s.statement_id}${form}`} target="_blank" rel="noreferrer" aria-label={`${s.label} as ${name}`} className="text-accent underline decoration-current/40 underline-offset-2 hover:decoration-current">
          {name}
        </a>
      ))}
    </span>
  )
}
