import { useQuery } from '@tanstack/react-query'
import { api, got, type Schemas } from '../../api/client'
import { largestPage, readAll } from '../../api/readall'
import { useMe } from '../../app/session'
import { Loading, TextLink } from '../../ui/basics'
import { CheckField } from '../../ui/form'
import { ProblemNote } from '../../ui/problem'

type Key = Schemas['SshkeyView']

type Props = { projectId: string; /** Undefined: all of them, also those that are there when it is placed. */ chosen?: string[]; onChange: (keys: string[] | undefined) => void; wrong?: string }

/** KeyChoice chooses the SSH keys that open what is rented, among one's own and those of the project. */
export function KeyChoice({ projectId, chosen, onChange, wrong }: Props) {
  const me = useMe()
  const mine = useQuery({
    queryKey: ['ssh-keys', 'mine', 'all'],
    queryFn: () => readAll((cursor) => got(api.GET('/api/v1/me/ssh-keys', { params: { query: { cursor, page_size: largestPage } } }))),
    enabled: me.kind === 'user',
  })
  const shared = useQuery({ queryKey: ['ssh-keys', 'project', projectId, 'all'], queryFn: () => readAll((cursor) => got(api.GET('/api/v1/projects/{project_id}/ssh-keys', { params: { path: { project_id: projectId }, query: { cursor, page_size: largestPage } } }))) })
  const all = [...(mine.data?.rows ?? []), ...(shared.data?.rows ?? [])]
  const failed = mine.error ?? shared.error
  if (mine.isLoading || shared.isPending) return <Loading what="SSH keys" />
  if (failed) return <ProblemNote error={failed} />
  if (all.length === 0) {
    return (
      <p className="text-xs text-muted">
        Neither you nor the project has an SSH key: <TextLink to="/ssh-keys">add one</TextLink>, or use the terminal in the browser, which needs none.
      </p>
    )
  }
  const box = (k: Key, whose: string) => <CheckField key={k.ssh_key_id} label={`${k.name} (${whose})`} value={chosen?.includes(k.ssh_key_id) ?? false} onChange={(on) => onChange(on ? [...(chosen ?? []), k.ssh_key_id] : chosen?.filter((id) => id !== k.ssh_key_id))} />
  return (
    <fieldset className="flex flex-col gap-2">
      <legend className="mb-1 text-sm font-medium">SSH keys that open it</legend>
      <CheckField label="All of yours and of the project" value={chosen === undefined} onChange={(on) => onChange(on ? undefined : all.map((k) => k.ssh_key_id))} />
      {chosen && (
        <div className="flex max-h-48 flex-col gap-1 overflow-auto rounded-md border border-line p-2">
          {mine.data?.rows.map((k) => box(k, 'yours'))}
          {shared.data?.rows.map((k) => box(k, 'of the project'))}
        </div>
      )}
      {wrong && (
        <p role="alert" className="text-xs text-bad">
          {wrong}
        </p>
      )}
    </fieldset>
  )
}
