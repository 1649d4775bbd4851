import { useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api, got } from '../../api/client'
import { usePages } from '../../api/pages'
import { Badge, Button, Card, Loading, TextLink } from '../../ui/basics'
import { ProblemNote } from '../../ui/problem'
import { When } from '../../ui/time'
import { EditWebhook } from './EditWebhook'
import { standing, told } from './webhook'

/** Webhooks is where a project is told its events. */
export function Webhooks({ projectId, manages }: { projectId: string; manages: boolean }) {
  const queries = useQueryClient()
  const [making, setMaking] = useState(false)
  const pages = usePages(['webhooks', projectId], (cursor) => got(api.GET('/api/v1/projects/{project_id}/webhooks', { params: { path: { project_id: projectId }, query: { cursor, page_size: 50 } } })))
  return (
    <Card title="Webhooks" actions={manages && <Button onClick={() => setMaking(true)}>Add a webhook …</Button>}>
      <p className="mb-2 text-sm text-muted">What happens in the project is posted to these addresses, signed, and tried again for a day where they do not answer.</p>
      {pages.error && <ProblemNote error={pages.error} onRetry={pages.retry} />}
      {pages.loading && <Loading what="webhooks" />}
      {!pages.loading && !pages.error && pages.rows.length === 0 && <p className="text-sm">There is none yet.{manages ? ' Add one to have a program of yours told of events.' : ' Administrators of the project add them.'}</p>}
      <ul className="flex flex-col divide-y divide-line">
        {pages.rows.map((w) => {
          const { word, tone } = standing(w)
          return (
            <li key={w.webhook_id} className="flex flex-wrap items-center gap-x-3 gap-y-1 py-2 text-sm">
              <div className="min-w-0 flex-1">
                <p className="flex flex-wrap items-center gap-2">
                  <TextLink to={`/access/projects/${projectId}/webhooks/${w.webhook_id}`}>{w.name}</TextLink>
                  <Badge tone={tone}>{word}</Badge>
                </p>
                <p className="text-xs break-all text-muted">
                  {w.url} · {told(w.kinds)}
                </p>
              </div>
              <span className="text-xs text-muted">
                last delivered <When at={w.last_delivered_at} />
              </span>
            </li>
          )
        })}
      </ul>
      {pages.hasMore && (
        <Button className="mt-2" disabled={!pages.more} onClick={pages.more}>
          Show more
        </Button>
      )}
      {making && <EditWebhook projectId={projectId} onDone={() => void queries.invalidateQueries({ queryKey: ['webhooks'] })} onClose={() => setMaking(false)} />}
    </Card>
  )
}
