import { useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api, got, type Schemas } from '../../api/client'
import { usePages } from '../../api/pages'
import { useMe } from '../../app/session'
import { Button, Card } from '../../ui/basics'
import { ConfirmDialog } from '../../ui/confirm'
import { ProblemNote } from '../../ui/problem'
import { exact, When } from '../../ui/time'
import { say } from '../../ui/toast'
import { mayIn } from '../access/roles'
import { ProjectName } from './ProjectName'
import type { Project } from './projects'

type Waiting = Schemas['AllocationRequestView']

/** Requests is what waits for nodes to become free, in a project or everywhere; nothing is shown while nothing waits. */
export function Requests({ project }: { project?: Project }) {
  const me = useMe()
  const queries = useQueryClient()
  const [ending, setEnding] = useState<Waiting>()
  const pages = usePages(
    ['allocation-requests', project?.project_id ?? 'all'],
    (cursor) =>
      project
        ? got(api.GET('/api/v1/projects/{project_id}/allocation-requests', { params: { path: { project_id: project.project_id }, query: { status: ['waiting'], cursor, page_size: 100 } } }))
        : got(api.GET('/api/v1/admin/allocation-requests', { params: { query: { status: ['waiting'], cursor, page_size: 100 } } })),
    { refetchInterval: 15_000 },
  )
  const mayEnd = (r: Waiting) => project && mayIn(me, r.requested_by === me.id ? 'allocation:use' : 'allocation:manage', { orgId: project.org_id, projectId: project.project_id })
  if (pages.error) return <ProblemNote error={pages.error} onRetry={pages.retry} />
  if (pages.rows.length === 0) return null
  return (
    <Card title="Waiting for nodes">
      <ul className="flex flex-col divide-y divide-line">
        {pages.rows.map((r) => (
          <li key={r.request_id} className="flex flex-wrap items-center gap-x-3 gap-y-1 py-2 text-sm">
            <div className="min-w-0 flex-1">
              <p className="font-medium break-words">
                {r.name ? `${r.name}: ` : ''}
                {r.count} × {r.sku}
                {r.position !== undefined && `, number ${r.position} in the queue`}
              </p>
              <p className="text-xs text-muted">
                {!project && <ProjectName id={r.project_id} />} {r.requested_by_name ?? r.requested_by} asked <When at={r.created_at} />; it waits until {exact(r.wait_until)}.
              </p>
            </div>
            {mayEnd(r) && (
              <Button aria-label={`Cancel the request for ${r.count} × ${r.sku}`} onClick={() => setEnding(r)}>
                Cancel …
              </Button>
            )}
          </li>
        ))}
      </ul>
      {pages.hasMore && (
        <Button className="mt-2" disabled={!pages.more} onClick={pages.more}>
          Show more
        </Button>
      )}
      {ending && (
        <ConfirmDialog
          title="Cancel the request"
          does="Cancel the request"
          act={() => got(api.POST('/api/v1/allocation-requests/{request_id}/cancel', { params: { path: { request_id: ending.request_id } } }))}
          onDone={() => {
            say('The request was cancelled.')
            void queries.invalidateQueries({ queryKey: ['allocation-requests'] })
          }}
          onClose={() => setEnding(undefined)}
        >
          <p>It loses its place in the queue. Nothing was charged for it.</p>
        </ConfirmDialog>
      )}
    </Card>
  )
}
