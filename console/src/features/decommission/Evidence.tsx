import { useQuery } from '@tanstack/react-query'
import { api, got } from '../../api/client'
import { Badge, Card, Code, Loading } from '../../ui/basics'
import { ProblemNote } from '../../ui/problem'
import { When } from '../../ui/time'
import { words, type Tone } from '../../ui/tone'
import type { Stage } from '../job/job'

function toneOf(kind: string): Tone {
  if (kind === 'override' || kind === 'follow_up') return 'warn'
  return kind === 'not_applicable' ? 'idle' : 'ok'
}

/** Evidence is what was seen while it was cleaned: certificates rest on it. */
export function Evidence({ id, stages }: { id: string; stages: Stage[] }) {
  const evidence = useQuery({ queryKey: ['decommissions', id, 'evidence'], queryFn: () => got(api.GET('/api/v1/admin/decommissions/{decommission_id}/evidence', { params: { path: { decommission_id: id } } })) })
  const rows = evidence.data?.items ?? []
  return (
    <Card title={`Evidence (${rows.length})`}>
      {evidence.error && <ProblemNote error={evidence.error} onRetry={() => void evidence.refetch()} />}
      {evidence.isPending && <Loading what="the evidence" />}
      {evidence.data && rows.length === 0 && <p className="text-sm text-muted">None yet: each stage that cleans or validates records its results here.</p>}
      <ul className="flex flex-col divide-y divide-line">
        {rows.map((e) => (
          <li key={e.seq} className="py-1.5">
            <details>
              <summary className="text-sm">
                <Badge tone={toneOf(e.kind)}>{words(e.kind)}</Badge>{' '}
                <span>{stages.find((s) => s.name === e.stage)?.title ?? words(e.stage)}</span>{' '}
                <span className="text-xs text-muted">
                  number {e.seq}, attempt {e.attempt} · <When at={e.recorded_at} />
                </span>
              </summary>
              <div className="mt-2">
                <Code block>{JSON.stringify(e.value, null, 2)}</Code>
              </div>
            </details>
          </li>
        ))}
      </ul>
    </Card>
  )
}
