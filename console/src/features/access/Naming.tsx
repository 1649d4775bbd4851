import { useMutation } from '@tanstack/react-query'
import { useState, type SyntheticEvent } from 'react'
import { asRefusal, type Schemas } from '../../api/client'
import { Button } from '../../ui/basics'
import { Dialog } from '../../ui/dialog'
import { TextField } from '../../ui/form'
import { ProblemNote } from '../../ui/problem'
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
  const submit = (e: SyntheticEvent) => {
    e.preventDefault()
    making.mutate()
  }
  return (
    <Dialog title={title} onClose={onClose}>
      <form onSubmit={submit} className="flex flex-col gap-4">
        <p className="text-sm">{hint}</p>
        <TextField label="Name" required value={name} onChange={setName} hint="For people. It can be changed." error={said.name} />
        <TextField label="Name for machines" required value={slug} onChange={setTypedSlug} hint="In addresses and commands. It never changes." error={said.slug ?? (slug ? slugProblem(slug) : undefined)} />
        {making.error && <ProblemNote error={making.error} />}
        <div className="flex justify-end gap-2">
          <Button disabled={making.isPending} onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" busy={making.isPending} disabled={name.trim() === '' || slugProblem(slug) !== undefined}>
            {does}
          </Button>
        </div>
      </form>
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
  const submit = (e: SyntheticEvent) => {
    e.preventDefault()
    renaming.mutate()
  }
  return (
    <Dialog title={`Rename the ${what}`} onClose={onClose}>
      <form onSubmit={submit} className="flex flex-col gap-4">
        <TextField label="Name" required value={name} onChange={setName} hint="For people. The name for machines stays." />
        {renaming.error && <ProblemNote error={renaming.error} />}
        <div className="flex justify-end gap-2">
          <Button disabled={renaming.isPending} onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" busy={renaming.isPending} disabled={name.trim() === '' || name.trim() === before}>
            Rename
          </Button>
        </div>
      </form>
    </Dialog>
  )
}
