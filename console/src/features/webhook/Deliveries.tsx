import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useState, type ReactNode } from 'react'
import { api, got } from '../../api/client'
import { usePages } from '../../api/pages'
import { useSearchState } from '../../app/location'
import { Badge, Button, Card, Code, Empty, Facts, Loading } from '../../ui/basics'
import { Dialog } from '../../ui/dialog'
import { SelectField } from '../../ui/form'
import { ProblemNote } from '../../ui/problem'
import { RowButton } from '../../ui/rowbutton'
import { Table, type Column } from '../../ui/table'
import { When } from '../../ui/time'
import { say } from '../../ui/toast'
import { answer, progresses, progressTone, type Delivery, type Webhook } from './webhook'

const columnsWith = (look: (d: Delivery) => void): Column<Delivery>[] => [
  { key: 'event', title: 'Event', width: 'minmax(12rem,1.2fr)', cell: (d) => <span className="font-mono text-xs">{d.event_type}</span> },
  { key: 'status', title: 'Status', width: '7rem', cell: (d) => <Badge tone={progressTone[d.status]}>{d.status}</Badge> },
  { key: 'when', title: 'Made', width: '7rem', cell: (d) => <When at={d.created_at} /> },
  { key: 'attempts', title: 'Attempts', width: '6rem', align: 'right', cell: (d) => d.attempts },
  { key: 'answer', title: 'Answer', width: '9rem', cell: answer },
  { key: 'next', title: 'Next attempt', width: '8rem', cell: (d) => (d.next_attempt_at ? <When at={d.next_attempt_at} /> : '') },
  { key: 'look', title: 'More', width: '6rem', cell: (d) => <RowButton label={`Look at the delivery of ${d.event_type}`} text="Look …" onClick={() => look(d)} /> },
]

/** Deliveries is the log of a webhook: what it was told, and what its receiver answered. */
export function Deliveries({ webhook: w, manages }: { webhook: Webhook; manages: boolean }) {
  const [search, change] = useSearchState()
  const [looked, setLooked] = useState<Delivery>()
  const status = progresses.find((p) => p === search.status)
  const path = { project_id: w.project_id, webhook_id: w.webhook_id }
  // No event tells of a delivery: the newest are read again while somebody looks.
  const pages = usePages(['webhooks', w.project_id, 'deliveries', w.webhook_id, status], (cursor) => got(api.GET('/api/v1/projects/{project_id}/webhooks/{webhook_id}/deliveries', { params: { path, query: { status, cursor, page_size: 50 } } })), { refetchInterval: 3_000 })
  const shown = looked && (pages.rows.find((d) => d.delivery_id === looked.delivery_id) ?? looked)
  return (
    <Card title="Deliveries">
      <div className="mb-3 w-44">
        <SelectField label="Status" value={status ?? ''} onChange={(v) => change({ status: v })} options={[{ value: '', label: 'any' }, ...progresses]} />
      </div>
      {pages.error && <ProblemNote error={pages.error} onRetry={pages.retry} />}
      {pages.loading && <Loading what="deliveries" />}
      {!pages.loading && !(pages.error && pages.rows.length === 0) && (
        <Table
          label="Deliveries"
          columns={columnsWith(setLooked)}
          rows={pages.rows}
          rowKey={(d) => d.delivery_id}
          onOpen={setLooked}
          more={pages.more}
          stale={pages.stale}
          empty={<Empty title={status ? `Nothing is ${status}` : 'Nothing was told yet'}>{status ? 'Choose another status to see the others.' : 'Send a test to see whether the receiver answers.'}</Empty>}
        />
      )}
      {shown && <OneDelivery webhook={w} delivery={shown} manages={manages} onClose={() => setLooked(undefined)} />}
    </Card>
  )
}

function OneDelivery({ webhook: w, delivery: d, manages, onClose }: { webhook: Webhook; delivery: Delivery; manages: boolean; onClose: () => void }) {
  const queries = useQueryClient()
  const again = useMutation({
    mutationFn: () => got(api.POST('/api/v1/projects/{project_id}/webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver', { params: { path: { project_id: w.project_id, webhook_id: w.webhook_id, delivery_id: d.delivery_id } } })),
    onSuccess: () => {
      say('It is being delivered again.')
      void queries.invalidateQueries({ queryKey: ['webhooks'] })
      onClose()
    },
  })
  return (
    <Dialog title={`Delivery of ${d.event_type}`} onClose={onClose} wide>
      <div className="flex flex-col gap-4">
        <Facts
          of={[
            ['Status', <Badge key="s" tone={progressTone[d.status]}>{d.status}</Badge>],
            ['Made', <When key="m" at={d.created_at} exactly />],
            ['Attempts', String(d.attempts)],
            ['Tried last', <When key="t" at={d.attempted_at} />],
            ...(d.next_attempt_at ? [['Tried next', <When key="n" at={d.next_attempt_at} />] as [string, ReactNode]] : []),
            ['Answer', answer(d)],
            ...(d.failure ? [['Why it failed', d.failure] as [string, ReactNode]] : []),
            ['webhook-id', <Code key="i">{d.event_id}</Code>],
          ]}
        />
        {d.answer_text && (
          <div>
            <h3 className="mb-1 text-sm font-medium">How the answer began</h3>
            <Code block>{d.answer_text}</Code>
          </div>
        )}
        {again.error && <ProblemNote error={again.error} />}
        {manages && (
          <div className="flex flex-wrap items-center justify-between gap-3">
            <p className="text-xs text-muted">The receiver knows it by the same webhook-id, and may drop it where it has seen that.</p>
            <Button look="primary" busy={again.isPending} disabled={w.status === 'disabled'} onClick={() => again.mutate()}>
              Deliver it again
            </Button>
          </div>
        )}
      </div>
    </Dialog>
  )
}
