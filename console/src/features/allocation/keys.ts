import { useQuery } from '@tanstack/react-query'
import { api, got } from '../../api/client'
import { largestPage, readAll } from '../../api/readall'
import { useMe } from '../../app/session'

/** Key is an SSH key that can open what is rented. */
export type Key = { id: string; name: string; whose: string }

/** useKeys is the keys that one can choose for what a project rents: one's own, and those of the project. */
export function useKeys(projectId: string): { keys: Key[]; loading: boolean; error: Error | null } {
  const me = useMe()
  const mine = useQuery({
    queryKey: ['ssh-keys', 'mine', 'all'],
    queryFn: () => readAll((cursor) => got(api.GET('/api/v1/me/ssh-keys', { params: { query: { cursor, page_size: largestPage } } }))),
    enabled: me.kind === 'user',
  })
  const shared = useQuery({ queryKey: ['ssh-keys', 'project', projectId, 'all'], queryFn: () => readAll((cursor) => got(api.GET('/api/v1/projects/{project_id}/ssh-keys', { params: { path: { project_id: projectId }, query: { cursor, page_size: largestPage } } }))) })
  const named = (whose: string) => (k: { ssh_key_id: string; name: string }): Key => ({ id: k.ssh_key_id, name: k.name, whose })
  const keys = [...(mine.data?.rows.map(named('yours')) ?? []), ...(shared.data?.rows.map(named('of the project')) ?? [])]
  return { keys, loading: mine.isLoading || shared.isLoading, error: mine.error ?? shared.error }
}
