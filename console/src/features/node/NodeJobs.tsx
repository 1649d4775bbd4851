import { useQueries } from '@tanstack/react-query'
import { api, got } from '../../api/client'
import { jobPath, jobsOfNode, nodeJobFamilies, type JobFamily, type JobIds } from '../../api/jobs'
import { useMay } from '../../app/session'
import { Card, State, TextLink } from '../../ui/basics'
import { ProblemNote } from '../../ui/problem'
import { When } from '../../ui/time'
import { words } from '../../ui/tone'
import { idOf, isOver, standingOf, type Job as JobOf } from '../job/job'
import type { Known } from './queries'

type Listed = Pick<JobOf, 'node_id' | 'hostname' | 'status' | 'outcome' | 'current_stage' | 'requested_at'> & JobIds & { mode?: string }
type Job = Listed & { kind: JobFamily }

/** useJobs reads the jobs of a node, of every kind of which the contract lists those of a node. */
function useJobs(node: Known) {
  const may = useMay()
  return useQueries({
    queries: nodeJobFamilies.map((kind) => ({
      queryKey: [`${kind}s`, 'of-node', node.node_id],
      queryFn: async () => {
        const by = { [jobsOfNode[kind]]: jobsOfNode[kind] === 'node_id' ? node.node_id : node.hostname }
        const { items } = await got(api.GET(`/api/v1/admin/${kind}s`, { params: { query: { ...by, page_size: 20 } } }))
        return items.filter((j: Listed) => j.node_id === node.node_id).map((j: Listed): Job => ({ ...j, kind }))
      },
      enabled: may(`${kind}:read`),
    })),
    combine: (all) => ({
      jobs: all.flatMap((q) => q.data ?? []).sort((a, b) => Date.parse(b.requested_at) - Date.parse(a.requested_at)),
      error: all.find((q) => q.error)?.error,
      loading: all.some((q) => q.isLoading),
    }),
  })
}

/** NodeJobs is the work that brought the node here and that was done to it since. */
export function NodeJobs({ node }: { node: Known }) {
  const { jobs, error, loading } = useJobs(node)
  return (
    <Card title="Jobs" className="lg:col-span-2">
      {error && <ProblemNote error={error} />}
      {jobs.length === 0 && !loading && !error && <p className="text-sm text-muted">There are no jobs for this node.</p>}
      <ul className="flex flex-col gap-2 text-sm">
        {jobs.map((job) => (
          <li key={idOf(job)} className="flex flex-wrap items-center gap-x-3 gap-y-1">
            <State of="job" is={standingOf(job)} />
            <TextLink to={jobPath({ kind: job.kind, id: idOf(job) })}>{job.mode ? words(job.mode) : job.kind}</TextLink>
            <span className="text-muted">
              {isOver(job.status) ? '' : `${words(job.current_stage)} · `}requested <When at={job.requested_at} />
            </span>
          </li>
        ))}
      </ul>
    </Card>
  )
}
