import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api, asRefusal, got, type Schemas } from '../../api/client'
import { enums } from '../../api/gen/enums'
import { ActForm } from '../../ui/actform'
import { Dialog } from '../../ui/dialog'
import { SelectField, TextArea, TextField } from '../../ui/form'
import { say } from '../../ui/toast'
import { called, type Allocation } from './allocation'

const categories = enums['AllocationComplaintBody.category']

/** Release gives a node back. Whoever had trouble with its hardware can say so: an operator looks at it before others get it. */
export function Release({ allocation: a, onClose }: { allocation: Allocation; onClose: () => void }) {
  const queries = useQueryClient()
  const [typed, setTyped] = useState('')
  const [category, setCategory] = useState('')
  const [text, setText] = useState('')
  const complaint = category ? { category: category as Schemas['AllocationComplaintBody']['category'], text: text.trim() } : undefined
  const doing = useMutation({
    mutationFn: () => got(api.POST('/api/v1/projects/{project_id}/allocations/{allocation_id}/release', { params: { path: { project_id: a.project_id, allocation_id: a.allocation_id } }, body: { complaint } })),
    onSuccess: () => {
      say('The release has started. Charging has stopped.')
      void queries.invalidateQueries({ queryKey: ['allocations'] })
      onClose()
    },
  })
  const again = a.status === 'release_failed'
  const refused = doing.error ? asRefusal(doing.error).fields : {}
  return (
    <Dialog title={again ? `Clean ${a.hostname} again` : `Release ${called(a)}`} onClose={onClose}>
      <ActForm doing={doing} does={again ? 'Clean again' : 'Release'} danger={!again} disabled={(!again && typed !== called(a)) || (complaint !== undefined && complaint.text.length < 3)} onClose={onClose}>
        {again ? <p className="text-sm">The cleaning of {a.hostname} stopped and is tried again. Nothing is charged for it.</p> : <p className="text-sm">This destroys all your data on {a.hostname} and cannot be undone. Charging stops now.</p>}
        {!again && (
          <>
            <SelectField label="Was something wrong with the hardware?" value={category} onChange={setCategory} options={[{ value: '', label: 'no' }, ...categories.map((c) => ({ value: c, label: c === 'gpu' ? 'GPU' : c }))]} hint="If so, an operator checks the node before anyone else gets it." />
            {category && <TextArea label="What was wrong" required rows={2} most={1000} value={text} onChange={setText} error={refused['complaint.text']} />}
            <TextField label={`Type “${called(a)}” to confirm`} required value={typed} onChange={setTyped} />
          </>
        )}
      </ActForm>
    </Dialog>
  )
}
