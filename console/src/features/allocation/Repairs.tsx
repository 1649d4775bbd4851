import { api, got } from '../../api/client'
import { usePages } from '../../api/pages'
import { Button, Card } from '../../ui/basics'
import { ProblemNote } from '../../ui/problem'
import { Elapsed, When } from '../../ui/time'
import { isOver, type Allocation } from './allocation'

/** Repairs is the times in which the node of an allocation was repaired; nothing is shown where there were none. */
export function Repairs({ allocation: a }: { allocation: Allocation }) {
  const pages = usePages(
    ['allocations', 'repairs', a.allocation_id],
    (cursor) => got(api.GET('/api/v1/projects/{project_id}/allocations/{allocation_id}/repairs', { params: { path: { project_id: a.project_id, allocation_id: a.allocation_id }, query: { cursor, page_size: 50 } } })),
    { refetchInterval: isOver(a) ? undefined : 10_000 },
  )
  if (pages.error) return <ProblemNote error={pages.error} onRetry={pages.retry} />
  if (pages.rows.length === 0) return null
  return (
    <Card title="Repairs">
      <ul className="flex flex-col divide-y divide-line text-sm">
        {pages.rows.map((r) => (
          <li key={r.repair_id} className="flex flex-wrap gap-x-3 py-1.5">
            <span className="w-28 shrink-0 text-muted">
              <When at={r.began_at} />
            </span>
            <span className="min-w-0 flex-1 break-words">
              {r.reason}
              {r.ended_because && <span className="text-muted"> · {r.ended_because}</span>}
            </span>
            <span className="text-muted">
              {r.ended_at ? 'took' : 'for'} <Elapsed from={r.began_at} to={r.ended_at} />
            </span>
          </li>
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
