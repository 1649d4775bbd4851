import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api, got, type Schemas } from '../../api/client'
import { usePages } from '../../api/pages'
import { useMay } from '../../app/session'
import { Badge, Button, Card, Code, Loading } from '../../ui/basics'
import { ReasonDialog } from '../../ui/dialog'
import { ProblemNote } from '../../ui/problem'
import { When } from '../../ui/time'
import { say } from '../../ui/toast'

type Letter = Schemas['OutboxEvent']

/** DeadLetters is what could not be delivered after all attempts: an operator decides. */
export function DeadLetters() {
  const pages = usePages(['system', 'dead-letters'], (cursor) => got(api.GET('/api/v1/admin/outbox/failed', { params: { query: { cursor, page_size: 50 } } })), { refetchInterval: 10_000 })
  return (
    <Card title="Dead letters: what could not be delivered">
      {pages.error && <ProblemNote error={pages.error} onRetry={pages.retry} />}
      {pages.loading && <Loading what="dead letters" />}
      <ul className="flex flex-col divide-y divide-line">
        {pages.rows.map((letter) => (
          <Row key={letter.event_id} letter={letter} />
        ))}
      </ul>
      {pages.hasMore && (
        <Button className="mt-2" disabled={!pages.more} onClick={pages.more}>
          Show more
        </Button>
      )}
    </Card>
  )
}

function Row({ letter }: { letter: Letter }) {
  const may = useMay()
  const queries = useQueryClient()
  const [discarding, setDiscarding] = useState(false)
  const path = { event_id: letter.event_id }
  const readAnew = () => queries.invalidateQueries({ queryKey: ['system'] })
  const requeue = useMutation({
    mutationFn: () => got(api.POST('/api/v1/admin/outbox/{event_id}/requeue', { params: { path } })),
    onSuccess: () => {
      say(`${letter.event_type} is delivered again.`)
      return readAnew()
    },
  })
  return (
    <li className="flex flex-wrap items-start gap-3 py-2 text-sm">
      <div className="min-w-0 flex-1">
        <p className="flex flex-wrap items-center gap-2">
          <Badge tone="bad">{letter.destination}</Badge>
          <span className="font-medium">{letter.event_type}</span>
          <span className="text-muted">
            {letter.aggregate_kind} <Code>{letter.aggregate_id}</Code>
          </span>
        </p>
        <p className="text-muted">
          Recorded <When at={letter.created_at} />, tried {letter.attempts} times
        </p>
        {letter.last_error && <p className="break-words text-bad">{letter.last_error}</p>}
        {requeue.error && <ProblemNote error={requeue.error} />}
      </div>
      {may('outbox:manage') && (
        <div className="flex gap-2">
          <Button busy={requeue.isPending} onClick={() => requeue.mutate()} title="It gets all its attempts again. Later events about the same thing may have been delivered before it.">
            Deliver again
          </Button>
          <Button onClick={() => setDiscarding(true)}>Discard …</Button>
        </div>
      )}
      {discarding && (
        <ReasonDialog
          title={`Discard ${letter.event_type}`}
          does="Discard"
          danger
          act={(reason) => got(api.POST('/api/v1/admin/outbox/{event_id}/discard', { params: { path }, body: { reason } }))}
          onDone={() => {
            say(`${letter.event_type} is discarded.`)
            void readAnew()
          }}
          onClose={() => setDiscarding(false)}
        >
          <p>It is never delivered. Whoever reads events does not learn of it{letter.destination === 'temporal' ? ', and the workflow that it was to start does not run' : ''}.</p>
        </ReasonDialog>
      )}
    </li>
  )
}
