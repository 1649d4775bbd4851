import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api, got, type Schemas } from '../../api/client'
import { usePages } from '../../api/pages'
import { useMay } from '../../app/session'
import { Badge, Button, Empty, Loading } from '../../ui/basics'
import { ReasonDialog } from '../../ui/dialog'
import { ProblemNote } from '../../ui/problem'
import { Elapsed, span, When } from '../../ui/time'
import { say } from '../../ui/toast'
import type { Tone } from '../../ui/tone'

type Check = Schemas['SelfCheck']

const tones: Record<Check['status'], Tone> = { pending: 'idle', running: 'info', passed: 'ok', failed: 'bad', cancelled: 'idle' }
// Most take less than a second; those that waited for something are told as people say it.
const took = (ms: number) => (ms < 10_000 ? `${ms} ms` : span(ms / 1000))
const lasts = (c: Check) => c.status === 'pending' || c.status === 'running'

/** SelfChecks has the control plane walk through its own parts, and shows how earlier walks went. */
export function SelfChecks() {
  const may = useMay()
  const queries = useQueryClient()
  const pages = usePages(['self-checks'], (cursor) => got(api.GET('/api/v1/admin/self-checks', { params: { query: { cursor, page_size: 20 } } })), { refetchInterval: 5_000 })
  const start = useMutation({
    mutationFn: () => got(api.POST('/api/v1/admin/self-checks', {})),
    onSuccess: () => {
      say('A self-check is running.')
      return queries.invalidateQueries({ queryKey: ['self-checks'] })
    },
  })
  const run = may('self_check:run') && (
    <Button look="primary" busy={start.isPending} onClick={() => start.mutate()}>
      Run a self-check
    </Button>
  )
  return (
    <div className="flex flex-col gap-3">
      <div className="flex flex-wrap items-center justify-between gap-3">
        <p className="max-w-3xl text-sm text-muted">A self-check goes through every component as real work does: it writes to PostgreSQL, starts a workflow in Temporal, delivers an event to NATS, stores a secret in OpenBao and reads it back.</p>
        {pages.rows.length > 0 && run}
      </div>
      {start.error && <ProblemNote error={start.error} />}
      {pages.error && <ProblemNote error={pages.error} onRetry={pages.retry} />}
      {pages.loading && <Loading what="self-checks" />}
      {!pages.loading && !pages.error && pages.rows.length === 0 && (
        <Empty title="No self-check yet" action={run}>
          Run one to see whether all parts work together. It takes a few seconds and changes nothing.
        </Empty>
      )}
      {pages.rows.map((c) => (
        <CheckCard key={c.id} check={c} />
      ))}
      {pages.hasMore && (
        <Button className="self-start" disabled={!pages.more} onClick={pages.more}>
          Show more
        </Button>
      )}
    </div>
  )
}

function CheckCard({ check: c }: { check: Check }) {
  const may = useMay()
  const queries = useQueryClient()
  const [cancelling, setCancelling] = useState(false)
  return (
    <article aria-label={`Self-check ${c.status}`} className="rounded-lg border border-line bg-surface px-4 py-3">
      <header className="flex flex-wrap items-center gap-3 text-sm">
        <Badge tone={tones[c.status]}>{c.status}</Badge>
        <When at={c.created_at} />
        <span className="text-muted">
          {lasts(c) ? 'for ' : 'took '}
          {c.finished_at ? took(Date.parse(c.finished_at) - Date.parse(c.created_at)) : <Elapsed from={c.created_at} />}
        </span>
        {c.waiting_for && lasts(c) && <span className="text-muted">at {c.waiting_for}</span>}
        {lasts(c) && may('self_check:run') && (
          <Button className="ml-auto" onClick={() => setCancelling(true)}>
            Cancel …
          </Button>
        )}
      </header>
      {c.steps.length > 0 && (
        <ol className="mt-2 flex flex-col gap-1 text-sm">
          {c.steps.map((s) => (
            <li key={s.name} className="flex flex-wrap items-baseline gap-2">
              <Badge tone={s.ok ? 'ok' : 'bad'}>{s.ok ? 'ok' : 'failed'}</Badge>
              <span className="font-medium">{s.components ?? s.name}</span>
              <span className="text-xs text-muted tabular-nums">{took(s.duration_ms)}</span>
              {s.message && <span className={s.ok ? 'text-muted' : 'text-bad'}>{s.message}</span>}
              {s.remedy && <span>{s.remedy}</span>}
            </li>
          ))}
        </ol>
      )}
      {cancelling && (
        <ReasonDialog
          title="Cancel the self-check"
          does="Cancel the self-check"
          act={(reason) => got(api.POST('/api/v1/admin/self-checks/{self_check_id}/cancel', { params: { path: { self_check_id: c.id } }, body: { reason } }))}
          onDone={() => {
            say('The self-check is being cancelled.')
            void queries.invalidateQueries({ queryKey: ['self-checks'] })
          }}
          onClose={() => setCancelling(false)}
        />
      )}
    </article>
  )
}
