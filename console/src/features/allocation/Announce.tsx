import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api, asRefusal, got, type Schemas } from '../../api/client'
import { ActForm } from '../../ui/actform'
import { Dialog } from '../../ui/dialog'
import { CheckField, SelectField, TextArea, TextField } from '../../ui/form'
import { say } from '../../ui/toast'
import { lifeOf, type Allocation } from './allocation'

type Kind = Schemas['MaintenancePlanBody']['kind']

const kinds: { value: Kind; label: string }[] = [
  { value: 'release', label: 'release: the allocation ends' },
  { value: 'reboot', label: 'reboot: the tenant keeps the node' },
  { value: 'pause', label: 'pause: the node is away for a while, the tenant keeps it' },
]

/** Announce tells the tenant of a node what will be done to it, or asks for consent. */
export function Announce({ allocation: a, onClose }: { allocation: Allocation; onClose: () => void }) {
  const queries = useQueryClient()
  const [kind, setKind] = useState<Kind>('reboot')
  const [opens, setOpens] = useState('24')
  const [closes, setCloses] = useState('26')
  const [consent, setConsent] = useState(false)
  const [reason, setReason] = useState('')
  const stays = kind !== 'release'
  const due = lifeOf(closes)
  const begin = lifeOf(opens)
  const at = (seconds: number) => new Date(Date.now() + seconds * 1000).toISOString()
  const doing = useMutation({
    mutationFn: () => got(api.POST('/api/v1/admin/maintenances', { body: { node_ids: [a.node_id], kind, ask_consent: consent, reason: reason.trim(), due_at: at(due.seconds ?? 0), ...(stays && { not_before: at(begin.seconds ?? 0) }) } })),
    onSuccess: () => {
      say('Its tenant is told.')
      void queries.invalidateQueries({ queryKey: ['allocations'] })
      onClose()
    },
  })
  const refused = doing.error ? asRefusal(doing.error).fields : {}
  return (
    <Dialog title={`Announce maintenance of ${a.hostname}`} onClose={onClose}>
      <ActForm doing={doing} does="Announce" disabled={reason.trim().length < 3 || !due.seconds || (stays && !begin.seconds)} onClose={onClose}>
        <SelectField label="What it needs" value={kind} onChange={(v) => setKind(v as Kind)} options={kinds} />
        {stays && <TextField label="Not before, in hours from now" type="number" required value={opens} onChange={setOpens} error={begin.wrong ?? refused.not_before} />}
        <TextField label={stays ? 'Done by, in hours from now' : 'The allocation ends, in hours from now'} type="number" required value={closes} onChange={setCloses} error={due.wrong ?? refused.due_at} />
        <CheckField label="Ask for consent" value={consent} onChange={setConsent} hint="Nothing happens without it. Otherwise the tenant is told." />
        <TextArea label="Why" required rows={2} most={500} value={reason} onChange={setReason} error={refused.reason} hint="The tenant reads it." />
      </ActForm>
    </Dialog>
  )
}
