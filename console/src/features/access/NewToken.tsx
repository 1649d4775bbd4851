import { useMutation } from '@tanstack/react-query'
import { useState } from 'react'
import { asRefusal, type Schemas } from '../../api/client'
import { ActForm } from '../../ui/actform'
import { Button } from '../../ui/basics'
import { Dialog } from '../../ui/dialog'
import { CheckField, SelectField, TextField } from '../../ui/form'
import { ShownOnce } from '../../ui/shownonce'
import { exact } from '../../ui/time'
import { words } from '../../ui/tone'
import { byArea } from './roles'

export type NewTokenBody = Schemas['IdentityNewTokenBody']

const lives = [
  { value: '3600', label: 'one hour' },
  { value: '86400', label: 'one day' },
  { value: '604800', label: 'one week' },
  { value: '2592000', label: '30 days' },
  { value: '7776000', label: '90 days' },
  { value: '31536000', label: 'one year' },
]

type Props = { scopes: string[]; create: (body: NewTokenBody) => Promise<Schemas['IdentityNewTokenView']>; onDone: () => void; onClose: () => void }

/** NewToken makes a token and shows it this once. */
export function NewToken({ scopes, create, onDone, onClose }: Props) {
  const [name, setName] = useState('')
  const [life, setLife] = useState('2592000')
  const [chosen, setChosen] = useState<string[]>()
  const making = useMutation({
    mutationFn: () => create({ name: name.trim(), expires_in: Number(life), scopes: chosen }),
    gcTime: 0, // the answer holds a secret
    onSuccess: onDone,
  })
  if (making.data) {
    return (
      <ShownOnce title={`Token ${making.data.name}`} secret={making.data.token} onClose={onClose}>
        <p>Keep it where secrets are kept. It works until {exact(making.data.expires_at)}.</p>
      </ShownOnce>
    )
  }
  return (
    <Dialog title="New token" onClose={onClose}>
      <ActForm doing={making} does="Make the token" leave="Cancel" disabled={name.trim() === '' || chosen?.length === 0} onClose={onClose}>
        <TextField label="Name" required value={name} onChange={setName} hint="What it is for. It stands in the list and in the audit log." error={making.error ? asRefusal(making.error).fields.name : undefined} />
        <SelectField label="Works for" value={life} onChange={setLife} options={lives} hint="At most: it ends when you sign out here. Make one that must last on the command line." />
        <CheckField label="Narrow it" hint="A token that may do only what it is for does less harm in wrong hands." value={chosen !== undefined} onChange={(on) => setChosen(on ? [] : undefined)} />
        {chosen && <Scopes all={scopes} chosen={chosen} onChange={setChosen} />}
      </ActForm>
    </Dialog>
  )
}

function Scopes({ all, chosen, onChange }: { all: string[]; chosen: string[]; onChange: (scopes: string[]) => void }) {
  return (
    <fieldset className="max-h-64 overflow-auto rounded-md border border-line p-3">
      <legend className="px-1 text-sm font-medium">It may only</legend>
      <div className="flex flex-wrap gap-2 pb-2">
        <Button onClick={() => onChange(all.filter((p) => p.endsWith(':read')))}>Only look</Button>
        <Button onClick={() => onChange([])}>Nothing</Button>
      </div>
      <div className="grid gap-3 sm:grid-cols-2">
        {byArea(all).map(([area, permissions]) => (
          <div key={area}>
            <p className="text-xs text-muted">{words(area)}</p>
            {permissions.map((p) => (
              <CheckField key={p} label={<span className="font-mono text-xs">{p}</span>} value={chosen.includes(p)} onChange={(on) => onChange(on ? [...chosen, p] : chosen.filter((c) => c !== p))} />
            ))}
          </div>
        ))}
      </div>
    </fieldset>
  )
}
