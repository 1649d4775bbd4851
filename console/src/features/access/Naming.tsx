import { useMutation } from '@tanstack/react-query'
import { useState } from 'react'
import { asRefusal, type Schemas } from '../../api/client'
import { ActForm } from '../../ui/actform'
import { Dialog } from '../../ui/dialog'
import { TextField } from '../../ui/form'
import { slugFrom, slugProblem } from './roles'

type Body = Schemas['IdentityNamingBody']

/** NewNamed makes a tenant or project: both have a name for people and one for machines. */
export function NewNamed({ title, hint, does, create, onDone, onClose }: { title: string; hint: string; does: string; create: (body: Body) => Promise<unknown>; onDone: (name: string) => void; onClose: () => void }) {
  const [name, setName] = useState('')
  const [typedSlug, setTypedSlug] = useState<string>()
  const slug = typedSlug ?? slugFrom(name)
  const making = useMutation({
    mutationFn: () => create({ name: name.trim(), slug }),
    onSuccess: () => {
      onDone(name.trim())
      onClose()
    },
  })
  const said = making.error ? asRefusal(making.error).fields : {}
  return (
    <Dialog title={title} onClose={onClose}>
      <ActForm doing={making} does={does} leave="Cancel" disabled={name.trim() === '' || slugProblem(slug) !== undefined} onClose={onClose}>
        <p className="text-sm">{hint}</p>
        <TextField label="Name" required value={name} onChange={setName} hint="For people. It can be changed." error={said.name} />
        <TextField label="Name for machines" required value={slug} onChange={setTypedSlug} hint="In addresses and commands. It never changes." error={said.slug ?? (slug ? slugProblem(slug) : undefined)} />
      </ActForm>
    </Dialog>
  )
}

/** Rename changes the name for people. */
export function Rename({ what, before, rename, onDone, onClose }: { what: string; before: string; rename: (name: string) => Promise<unknown>; onDone: () => void; onClose: () => void }) {
  const [name, setName] = useState(before)
  const renaming = useMutation({
    mutationFn: () => rename(name.trim()),
    onSuccess: () => {
      onDone()
      onClose()
    },
  })
  return (
    <Dialog title={`Rename the ${what}`} onClose={onClose}>
      <ActForm doing={renaming} does="Rename" leave="Cancel" disabled={name.trim() === '' || name.trim() === before} onClose={onClose}>
        <TextField label="Name" required value={name} onChange={setName} hint="For people. The name for machines stays." />
      </ActForm>
    </Dialog>
  )
}
