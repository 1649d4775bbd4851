import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api, asRefusal, got, type Schemas } from '../../api/client'
import { ActForm } from '../../ui/actform'
import { Dialog } from '../../ui/dialog'
import { CheckField, SelectField, TextField } from '../../ui/form'
import { exact } from '../../ui/time'
import { say } from '../../ui/toast'
import { called, lifeOf, type Allocation } from './allocation'

type End = 'keep' | 'hours' | 'never'

/** Terms changes what may be changed while an allocation lasts: its name, its end, and whether it is protected. */
export function Terms({ allocation: a, onClose }: { allocation: Allocation; onClose: () => void }) {
  const queries = useQueryClient()
  const [name, setName] = useState(a.name ?? '')
  const [end, setEnd] = useState<End>('keep')
  const [hours, setHours] = useState('24')
  const [guarded, setGuarded] = useState(a.protected)
  const life = lifeOf(hours)
  const change: Schemas['AllocationChangeBody'] = {
    ...(name.trim() !== (a.name ?? '') && { name: name.trim() }),
    ...(guarded !== a.protected && { protected: guarded }),
    ...(end !== 'keep' && { expires_in_seconds: end === 'never' ? 0 : life.seconds }),
  }
  const doing = useMutation({
    mutationFn: () => got(api.POST('/api/v1/projects/{project_id}/allocations/{allocation_id}/terms', { params: { path: { project_id: a.project_id, allocation_id: a.allocation_id } }, body: change })),
    onSuccess: () => {
      say('It is changed.')
      void queries.invalidateQueries({ queryKey: ['allocations'] })
      onClose()
    },
  })
  const refused = doing.error ? asRefusal(doing.error).fields : {}
  const wrong = end === 'hours' ? (life.wrong ?? (life.seconds ? undefined : 'A number of hours.')) : undefined
  return (
    <Dialog title={`Change ${called(a)}`} onClose={onClose}>
      <ActForm doing={doing} does="Change" disabled={Object.keys(change).length === 0 || wrong !== undefined} onClose={onClose}>
        <TextField label="Name" value={name} onChange={setName} error={refused.name} />
        <SelectField
          label="End"
          value={end}
          onChange={(v) => setEnd(v as End)}
          options={[
            { value: 'keep', label: a.expires_at ? `as it is: ${exact(a.expires_at)}` : 'unchanged: no end' },
            { value: 'hours', label: 'a number of hours from now' },
            ...(a.expires_at ? [{ value: 'never', label: 'never' }] : []),
          ]}
          error={refused.expires_in_seconds}
        />
        {end === 'hours' && <TextField label="Hours from now" type="number" required value={hours} onChange={setHours} error={wrong} />}
        <CheckField label="Protected" value={guarded} onChange={setGuarded} hint="It cannot be released until you remove the protection." />
      </ActForm>
    </Dialog>
  )
}
