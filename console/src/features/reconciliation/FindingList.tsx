import { useState } from 'react'
import { api, got } from '../../api/client'
import { usePages } from '../../api/pages'
import { Button, Empty, Loading } from '../../ui/basics'
import { ProblemNote } from '../../ui/problem'
import { FindingCard } from './FindingCard'
import { oftenIs, severities, type Finding, type Severity } from './findings'

type Filter = { site?: string; type?: string; status?: string; repeated: boolean }
type Status = Finding['status'] | 'present'

/** FindingList shows findings by severity, the worst first; those of no weight only when asked for. */
export function FindingList({ severity, ...filter }: Filter & { severity?: string }) {
  const shown = severities.filter((s) => !severity || s === severity)
  return (
    <div className="flex flex-col gap-5">
      {shown.map((s) => (
        <OfSeverity key={s} severity={s} filter={filter} folded={s === 'debug' && severity !== 'debug'} />
      ))}
    </div>
  )
}

const titles: Record<Severity, string> = { critical: 'Critical', warning: 'Warnings', info: 'For your information', debug: 'Minor' }

function OfSeverity({ severity, filter, folded }: { severity: Severity; filter: Filter; folded: boolean }) {
  const [open, setOpen] = useState(!folded)
  const { site, type, status, repeated } = filter
  const pages = usePages(
    ['drift', 'findings', severity, site, type, status],
    (cursor) => got(api.GET('/api/v1/admin/reconciliation/findings', { params: { query: { site_id: site, severity, type, status: (status ?? 'present') as Status, cursor, page_size: 50 } } })),
    { refetchInterval: 15_000 },
  )
  const rows = repeated ? pages.rows.filter((f) => f.occurrence >= oftenIs) : pages.rows
  const empty = !pages.loading && !pages.error && rows.length === 0
  if (empty && severity !== 'critical') return null
  return (
    <section aria-label={titles[severity]} className={pages.stale ? 'opacity-60' : ''}>
      <h2 className="mb-2 flex items-center gap-2 text-sm font-semibold">
        {titles[severity]}
        <span className="font-normal text-muted">
          {rows.length}
          {pages.hasMore && ' or more'}
        </span>
        {rows.length > 0 && (
          <Button look="quiet" aria-expanded={open} onClick={() => setOpen(!open)}>
            {open ? 'Hide' : 'Show'}
          </Button>
        )}
      </h2>
      {pages.error && <ProblemNote error={pages.error} onRetry={pages.retry} />}
      {pages.loading && <Loading what="findings" />}
      {empty && <Empty title="No critical finding">Nothing needs you right away.</Empty>}
      {open && (
        <div className="flex flex-col gap-2">
          {rows.map((f) => (
            <FindingCard key={f.finding_id} finding={f} />
          ))}
          {pages.hasMore && (
            <Button className="self-start" disabled={!pages.more} onClick={pages.more}>
              Show more
            </Button>
          )}
        </div>
      )}
    </section>
  )
}
