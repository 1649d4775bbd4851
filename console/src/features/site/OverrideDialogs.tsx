import { useMutation } from '@tanstack/react-query'
import { useState, type SyntheticEvent } from 'react'
import { api, asRefusal, got } from '../../api/client'
import { Button } from '../../ui/basics'
import { Dialog } from '../../ui/dialog'
import { SelectField, TextField } from '../../ui/form'
import { ProblemNote } from '../../ui/problem'
import { unheard } from './credentialDraft'
import { selectorExamples, selectorRules, selectors, type Override } from './selectors'
import { ifMatch, type Site } from './siteQueries'

/** NewOverride gives one machine BMC credentials of its own. */
export function NewOverride({ site, onClose, onDone }: { site: Site; onClose: () => void; onDone: (text: string) => void }) {
  const [type, setType] = useState<Override['selector_type']>('hostname')
  const [value, setValue] = useState('')
  const [user, setUser] = useState('')
  const [pass, setPass] = useState('')
  const making = useMutation({
    mutationFn: () =>
      got(api.POST('/api/v1/admin/maas-sites/{site_id}/power-overrides', { params: { path: { site_id: site.site_id } }, body: { selector_type: type, selector_value: value.trim(), user: user.trim(), pass } })),
    onSuccess: () => {
      onDone(`BMC credentials for ${value.trim()} are written.`)
      onClose()
    },
    onError: (error) => unheard(asRefusal(error).status) || setPass(''), // a refused secret does not stay in the page
  })
  const refused = making.error ? asRefusal(making.error).fields : {}
  const wrong = value.trim() === '' ? undefined : selectorRules[type](value.trim())
  const submit = (e: SyntheticEvent) => {
    e.preventDefault()
    making.mutate()
  }
  return (
    <Dialog title="New power override" onClose={onClose}>
      <form noValidate onSubmit={submit} className="flex flex-col gap-4">
        <div className="grid items-start gap-4 sm:grid-cols-2">
          <SelectField label="Found by" value={type} onChange={(v) => setType(v as Override['selector_type'])} options={Object.entries(selectors).map(([v, label]) => ({ value: v, label }))} hint="How the machine is recognised." />
          <TextField label={selectors[type]} required value={value} onChange={setValue} placeholder={selectorExamples[type]} error={wrong ?? refused.selector_value} />
        </div>
        <Account user={user} setUser={setUser} pass={pass} setPass={setPass} refused={refused} />
        {making.error && <ProblemNote error={making.error} />}
        <div className="flex justify-end gap-2">
          <Button disabled={making.isPending} onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" busy={making.isPending} disabled={!value.trim() || !!wrong || !user.trim() || !pass}>
            Write override
          </Button>
        </div>
      </form>
    </Dialog>
  )
}

/** RotateOverride writes other credentials; the next use takes them. */
export function RotateOverride({ override, machine, onClose, onDone }: { override: Override; machine: string; onClose: () => void; onDone: (text: string) => void }) {
  const [user, setUser] = useState('')
  const [pass, setPass] = useState('')
  const path = { site_id: override.site_id, power_override_id: override.power_override_id }
  const writing = useMutation({
    mutationFn: () =>
      got(api.PATCH('/api/v1/admin/maas-sites/{site_id}/power-overrides/{power_override_id}', { params: { path, header: ifMatch(override) }, body: { credentials: { user: user.trim(), pass } } })),
    onSuccess: () => {
      onDone(`BMC credentials for ${machine} are changed.`)
      onClose()
    },
    onError: (error) => unheard(asRefusal(error).status) || setPass(''), // a refused secret does not stay in the page
  })
  const submit = (e: SyntheticEvent) => {
    e.preventDefault()
    writing.mutate()
  }
  return (
    <Dialog title={`Change BMC credentials for ${machine}`} onClose={onClose}>
      <form noValidate onSubmit={submit} className="flex flex-col gap-4">
        <p className="text-sm">The next use takes the new ones. The BMC itself is not changed.</p>
        <Account user={user} setUser={setUser} pass={pass} setPass={setPass} refused={writing.error ? asRefusal(writing.error).fields : {}} />
        {writing.error && <ProblemNote error={writing.error} />}
        <div className="flex justify-end gap-2">
          <Button disabled={writing.isPending} onClick={onClose}>Keep as it is</Button>
          <Button type="submit" look="primary" busy={writing.isPending} disabled={!user.trim() || !pass}>
            Write credentials
          </Button>
        </div>
      </form>
    </Dialog>
  )
}

type AccountProps = { user: string; setUser: (v: string) => void; pass: string; setPass: (v: string) => void; refused: Record<string, string> }

function Account({ user, setUser, pass, setPass, refused }: AccountProps) {
  return (
    <div className="grid items-start gap-4 sm:grid-cols-2">
      <TextField label="BMC account" required value={user} onChange={setUser} error={refused.user ?? refused['credentials.user']} />
      <TextField label="BMC password" required type="password" value={pass} onChange={setPass} error={refused.pass ?? refused['credentials.pass']} hint="Written once; nobody can read it back." />
    </div>
  )
}
