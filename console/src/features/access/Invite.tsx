import { useMutation } from '@tanstack/react-query'
import { useState } from 'react'
import { api, asRefusal, got, type Schemas } from '../../api/client'
import { ActForm } from '../../ui/actform'
import { Dialog } from '../../ui/dialog'
import { SelectField, TextField } from '../../ui/form'
import { say } from '../../ui/toast'
import { words } from '../../ui/tone'
import { platformMeans } from './roles'

type PlatformRole = Schemas['IdentityUserView']['platform_role']

/** platformOptions is the roles on the platform, for choosing. */
export const platformOptions = (['none', 'auditor', 'operator', 'platform_admin'] as const satisfies PlatformRole[]).map((r) => ({ value: r, label: `${r === 'none' ? 'no role' : words(r)}: ${platformMeans[r]}` }))

/** Invite makes somebody known, so that they can sign in. */
export function Invite({ onDone, onClose }: { onDone: () => void; onClose: () => void }) {
  const [email, setEmail] = useState('')
  const [name, setName] = useState('')
  const [role, setRole] = useState<string>('none')
  const inviting = useMutation({
    mutationFn: () => got(api.POST('/api/v1/admin/users', { body: { email: email.trim(), name: name.trim() || undefined, platform_role: role as PlatformRole } })),
    onSuccess: () => {
      say(`${email.trim()} can sign in now.`)
      onDone()
      onClose()
    },
  })
  const said = inviting.error ? asRefusal(inviting.error).fields : {}
  const malformed = email !== '' && !/^\S+@\S+$/.test(email.trim())
  return (
    <Dialog title="Invite somebody" onClose={onClose}>
      <ActForm doing={inviting} does="Invite" leave="Cancel" disabled={email.trim() === '' || malformed} onClose={onClose}>
        <p className="text-sm">No mail is sent. They can sign in through the identity provider with this address, once the provider has verified it.</p>
        <TextField label="E-mail address" required value={email} onChange={setEmail} error={said.email ?? (malformed ? 'This is no e-mail address.' : undefined)} />
        <TextField label="Name" value={name} onChange={setName} hint="Taken from their first sign-in when left out." error={said.name} />
        <SelectField label="Role on the platform" value={role} onChange={setRole} options={platformOptions} hint="Roles in tenants and projects are given there." />
      </ActForm>
    </Dialog>
  )
}
