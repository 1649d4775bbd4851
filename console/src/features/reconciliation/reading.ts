import { useQuery } from '@tanstack/react-query'
import { api, got } from '../../api/client'

// A cycle that finds nothing is no event, so how old the last one is has to be asked.
const statusEvery = 10_000

/** statusQuery is how reconciliation of each site stands. */
export const statusQuery = {
  queryKey: ['drift', 'status'],
  queryFn: () => got(api.GET('/api/v1/admin/reconciliation/status')),
  refetchInterval: statusEvery,
}

export function useStatus(enabled = true) {
  return useQuery({ ...statusQuery, enabled })
}

/** useRun follows a run until it has ended. */
export function useRun(runId: string | undefined) {
  return useQuery({
    queryKey: ['drift', 'run', runId],
    queryFn: () => got(api.GET('/api/v1/admin/reconciliation/runs/{run_id}', { params: { path: { run_id: runId ?? '' } } })),
    enabled: runId !== undefined,
    refetchInterval: (query) => (query.state.data?.ended_at ? false : 1_000),
  })
}

/** useKinds is the kinds of the newest findings with their titles, for filters: kinds come with releases. */
export function useKinds(): Map<string, string> {
  const query = useQuery({
    queryKey: ['drift', 'kinds'],
    queryFn: () => got(api.GET('/api/v1/admin/reconciliation/findings', { params: { query: { page_size: 200 } } })),
  })
  const titles = new Map((query.data?.items ?? []).map((f) => [f.type, f.title]))
  return new Map([...titles].sort((a, b) => a[1].localeCompare(b[1])))
}
