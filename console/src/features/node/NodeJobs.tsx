import { useQuery } from '@tanstack/react-query'
import { api, got } from '../../api/client'
import { jobPath, type JobFamily } from '../../api/jobs'
import { useMay } from '../../app/session'
import { Card, State, TextLink } from '../../ui/basics'
import { ProblemNote } from '../../ui/problem'
import { When } from '../../ui/time'
import { words } from '../../ui/tone'
import { standingOf } from '../job/job'
import type { Known } from './queries'

type Job = { key: string; kind: JobFamily; what: string; status: string; standing: string; stage: string; at: string }

function useJobs(node: Known) {
  const may = useMay()
  const onboardings = useQuery({
    queryKey: ['onboardings', 'of-node', node.node_id],
    queryFn: () => got(api.GET('/api/v1/admin/onboardings', { params: { query: { hostname: node.hostname, page_size: 20 } } })),
    enabled: may('onboarding:read') && node.onboarding_mode === 'maas',
  })
  const decommissions = useQuery({
    queryKey: ['decommissions', 'of-node', node.node_id],
    queryFn: () => got(api.GET('/api/v1/admin/decommissions', { params: { query: { node_id: node.node_id, page_size: 20 } } })),
    enabled: may('decommission:read'),
  })
  const jobs: Job[] = [
    ...(onboardings.data?.items ?? []).filter((o) => o.node_id === node.node_id).map((o): Job => ({ key: o.onboarding_id, kind: 'onboarding', what: 'onboarding', status: o.status, standing: o.status, stage: o.current_stage, at: o.requested_at })),
    ...(decommissions.data?.items ?? []).map((d): Job => ({ key: d.decommission_id, kind: 'decommission', what: words(d.mode), status: d.status, standing: standingOf(d), stage: d.current_stage, at: d.requested_at })),
  ]
  jobs.sort((a, b) => Date.parse(b.at) - Date.parse(a.at))
  return { jobs, error: onboardings.error ?? decommissions.error, loading: onboardings.isLoading || decommissions.isLoading }
}

/** NodeJobs is the work that brought the node here and that was done to it since. */
export function NodeJobs({ node }: { node: Known }) {
  const { jobs, error, loading } = useJobs(node)
  return (
    <Card title="Jobs" className="lg:col-span-2">
      {error && <ProblemNote error={error} />}
      {jobs.length === 0 && !loading && !error && <p className="text-sm text-muted">No onboarding or turnover is known for this node.</p>}
      <ul className="flex flex-col gap-2 text-sm">
        {jobs.map((job) => (
          <li key={job.key} className="flex flex-wrap items-center gap-x-3 gap-y-1">
            <State of="job" is={job.standing} />
            <TextLink to={jobPath({ kind: job.kind, id: job.key })}>{job.what}</TextLink>
            <span className="text-muted">
              {['completed', 'cancelled', 'reconciled'].includes(job.status) ? '' : `${words(job.stage)} · `}asked for <When at={job.at} />
            </span>
          </li>
        ))}
      </ul>
    </Card>
  )
}
