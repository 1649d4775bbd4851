import { useMutation, useQueryClient, type QueryKey } from '@tanstack/react-query'
import { useState } from 'react'
import { api, got, Refusal, type Schemas } from '../../api/client'
import { usePages } from '../../api/pages'
import { useMay } from '../../app/session'
import { ActForm } from '../../ui/actform'
import { Badge, Button, Card, Loading } from '../../ui/basics'
import { Dialog } from '../../ui/dialog'
import { SelectField, TextField } from '../../ui/form'
import { ProblemNote } from '../../ui/problem'
import { When } from '../../ui/time'
import { say } from '../../ui/toast'
import { words } from '../../ui/tone'
import { ConfirmDialog } from '../../ui/confirm'
import { roleMeans, type Role } from './roles'

type Member = Schemas['IdentityMemberView']

type Props = {
  title: string
  lead: string
  queryKey: QueryKey
  /** The roles that can be given here. */
  roles: Role[]
  mayManage: boolean
  list: (cursor: string | undefined) => Promise<{ items: Member[]; next_cursor?: string }>
  put: (userId: string, role: Role) => Promise<unknown>
  remove: (userId: string) => Promise<unknown>
}

/** Members is who holds a role on a tenant or in a project. */
export function Members({ title, lead, queryKey, roles, mayManage, list, put, remove }: Props) {
  const queries = useQueryClient()
  const [giving, setGiving] = useState<Member | 'new'>()
  const [removing, setRemoving] = useState<Member>()
  const pages = usePages(queryKey, list)
  const done = (text: string) => () => {
    say(text)
    void queries.invalidateQueries({ queryKey })
  }
  return (
    <Card title={title} actions={mayManage && <Button onClick={() => setGiving('new')}>Give a role …</Button>}>
      <p className="mb-2 text-sm text-muted">{lead}</p>
      {pages.error && <ProblemNote error={pages.error} onRetry={pages.retry} />}
      {pages.loading && <Loading what="members" />}
      {!pages.loading && !pages.error && pages.rows.length === 0 && <p className="text-sm">Nobody yet.</p>}
      <ul className="flex flex-col divide-y divide-line">
        {pages.rows.map((m) => (
          <li key={m.user_id} className="flex flex-wrap items-center gap-x-3 gap-y-1 py-2 text-sm">
            <div className="min-w-0 flex-1">
              <p className="flex flex-wrap items-center gap-2">
                <span className="font-medium break-words">{m.name || m.email}</span>
                <Badge tone="info" title={roleMeans[m.role]}>
                  {words(m.role)}
                </Badge>
              </p>
              <p className="text-xs break-words text-muted">
                {m.name && `${m.email} · `}since <When at={m.created_at} exactly />
              </p>
            </div>
            {mayManage && (
              <div className="flex gap-2">
                {roles.length > 1 && <Button onClick={() => setGiving(m)}>Change …</Button>}
                <Button onClick={() => setRemoving(m)}>Remove …</Button>
              </div>
            )}
          </li>
        ))}
      </ul>
      {pages.hasMore && (
        <Button className="mt-2" disabled={!pages.more} onClick={pages.more}>
          Show more
        </Button>
      )}
      {giving && <GiveRole member={giving === 'new' ? undefined : giving} roles={roles} put={put} onDone={done('The role is given.')} onClose={() => setGiving(undefined)} />}
      {removing && (
        <ConfirmDialog title={`Remove ${removing.name || removing.email}`} does="Remove" danger act={() => remove(removing.user_id)} onDone={done('The role is taken away.')} onClose={() => setRemoving(undefined)}>
          <p>They lose the role {words(removing.role)} here at once. What they hold elsewhere stays.</p>
        </ConfirmDialog>
      )}
    </Card>
  )
}

/** personOf finds the id of a person who is named by address or id. */
async function personOf(named: string): Promise<string> {
  if (!named.includes('@')) return named
  const found = await got(api.GET('/api/v1/admin/users', { params: { query: { email: named } } }))
  const person = found.items[0]
  if (person) return person.user_id
  throw new Refusal({ type: 'about:blank', title: 'Not found', status: 404, code: 'user_not_found', detail: `Nobody with the address ${named} is known here.`, remedy: 'Invite them first, under Access, People.' })
}

function GiveRole({ member, roles, put, onDone, onClose }: { member?: Member; roles: Role[]; put: Props['put']; onDone: () => void; onClose: () => void }) {
  const finds = useMay()('user:read')
  const [who, setWho] = useState('')
  const [role, setRole] = useState<string>(member?.role ?? roles[0] ?? '')
  const giving = useMutation({
    mutationFn: async () => put(member?.user_id ?? (await personOf(who.trim())), role as Role),
    onSuccess: () => {
      onDone()
      onClose()
    },
  })
  return (
    <Dialog title={member ? `Change the role of ${member.name || member.email}` : 'Give a role'} onClose={onClose}>
      <ActForm doing={giving} does="Give the role" leave="Cancel" disabled={member ? role === member.role : who.trim() === ''} onClose={onClose}>
        {!member && <TextField label={finds ? 'E-mail address or id' : 'Id of the person'} required value={who} onChange={setWho} hint={finds ? 'Of somebody who is known here already.' : 'They see it under Access, You. Whoever never signed in has none yet.'} />}
        <SelectField label="Role" value={role} onChange={setRole} options={roles.map((r) => ({ value: r, label: `${words(r)}: ${roleMeans[r]}` }))} />
      </ActForm>
    </Dialog>
  )
}
