import { useMutation, useQuery } from '@tanstack/react-query'
import { useState, type SyntheticEvent } from 'react'
import { api, got, versioned, type Schemas } from '../../api/client'
import { useMay, useMe } from '../../app/session'
import { Badge, Button, Code, Facts, Loading, Note } from '../../ui/basics'
import { Dialog } from '../../ui/dialog'
import { CheckField, SelectField, TextField } from '../../ui/form'
import { ProblemNote } from '../../ui/problem'
import { When } from '../../ui/time'
import { say } from '../../ui/toast'
import { words } from '../../ui/tone'
import { platformOptions } from './Invite'
import { platformMeans } from './roles'

type User = Schemas['IdentityUserView']

/** Person is one of the people, and what an administrator of the platform changes about them. */
export function Person({ userId, onDone, onClose }: { userId: string; onDone: () => void; onClose: () => void }) {
  const may = useMay()
  const user = useQuery({ queryKey: ['users', 'one', userId], queryFn: () => versioned(api.GET('/api/v1/admin/users/{user_id}', { params: { path: { user_id: userId } } })) })
  const u = user.data?.body
  return (
    <Dialog title={u ? u.name || u.email : 'Person'} onClose={onClose}>
      {user.error && <ProblemNote error={user.error} onRetry={() => void user.refetch()} />}
      {user.isPending && <Loading what="the person" />}
      {u && (
        <div className="flex flex-col gap-4">
          <Facts
            of={[
              ['E-mail address', u.email],
              ['Id', <Code key="i">{u.user_id}</Code>],
              ['On the platform', `${u.platform_role === 'none' ? 'no role' : words(u.platform_role)}: ${platformMeans[u.platform_role]}`],
              ['State', u.disabled ? <Badge key="s" tone="bad">disabled</Badge> : <Badge key="s" tone="ok">enabled</Badge>],
              ['Identity provider', u.linked ? 'has signed in with it' : 'has not signed in with it yet'],
              ['Known since', <When key="c" at={u.created_at} />],
            ]}
          />
          {may('user:manage') && <Change user={u} etag={user.data?.etag ?? ''} onDone={onDone} onClose={onClose} />}
        </div>
      )}
    </Dialog>
  )
}

function Change({ onDone, onClose, ...shown }: { user: User; etag: string; onDone: () => void; onClose: () => void }) {
  // Whom the form was opened for, as they were: what others change meanwhile neither empties it nor is overwritten.
  const [{ user, etag }] = useState(shown)
  const me = useMe()
  const [name, setName] = useState(user.name)
  const [role, setRole] = useState<string>(user.platform_role)
  const [disabled, setDisabled] = useState(user.disabled)
  const changing = useMutation({
    mutationFn: () =>
      got(
        api.PATCH('/api/v1/admin/users/{user_id}', {
          params: { path: { user_id: user.user_id }, header: { 'If-Match': etag } },
          body: { name: name.trim() || undefined, platform_role: role as User['platform_role'], disabled },
        }),
      ),
    onSuccess: () => {
      say(`${user.name || user.email} is changed.`)
      onDone()
      onClose()
    },
  })
  const submit = (e: SyntheticEvent) => {
    e.preventDefault()
    changing.mutate()
  }
  const same = name.trim() === user.name && role === user.platform_role && disabled === user.disabled
  const disabling = disabled && !user.disabled
  return (
    <form onSubmit={submit} className="flex flex-col gap-4 border-t border-line pt-4">
      <TextField label="Name" value={name} onChange={setName} />
      <SelectField label="Role on the platform" value={role} onChange={setRole} options={platformOptions} />
      <CheckField label="Disabled" hint="They can neither sign in nor use a token." value={disabled} onChange={setDisabled} />
      {disabling && <Note tone="warn" title="Disabling revokes all of their tokens at once.">Programs that act in their name stop. Enabling them again does not bring the tokens back.</Note>}
      {user.user_id === me.id && role !== user.platform_role && <Note tone="warn" title="This is you: you lose what the role let you do." />}
      {changing.error && <ProblemNote error={changing.error} />}
      <div className="flex justify-end gap-2">
        <Button disabled={changing.isPending} onClick={onClose}>Keep as it is</Button>
        <Button type="submit" look={disabling ? 'danger' : 'primary'} busy={changing.isPending} disabled={same}>
          {disabling ? 'Disable' : 'Change'}
        </Button>
      </div>
    </form>
  )
}
