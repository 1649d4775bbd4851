import { useQueries } from '@tanstack/react-query'
import { api, got, type Schemas } from '../../api/client'
import { useMe } from '../../app/session'

export type Project = Schemas['IdentityProjectView']

/** useProjects is the projects that whoever is signed in has a role in, by the project or by its tenant. */
export function useProjects(): { projects: Project[]; loading: boolean } {
  const me = useMe()
  const ofTenants = useQueries({
    queries: me.tenants.map((t) => ({ queryKey: ['projects', 'of', t.org_id], queryFn: () => got(api.GET('/api/v1/tenants/{org_id}/projects', { params: { path: { org_id: t.org_id }, query: { page_size: 200 } } })) })),
  })
  const own = useQueries({
    queries: me.projects.map((p) => ({ queryKey: ['projects', 'of', 'me', p.project_id], queryFn: () => got(api.GET('/api/v1/projects/{project_id}', { params: { path: { project_id: p.project_id } } })) })),
  })
  const found = new Map<string, Project>()
  for (const p of [...own.flatMap((q) => q.data ?? []), ...ofTenants.flatMap((q) => q.data?.items ?? [])]) found.set(p.project_id, p)
  return { projects: [...found.values()].sort((a, b) => a.name.localeCompare(b.name)), loading: [...ofTenants, ...own].some((q) => q.isPending) }
}
