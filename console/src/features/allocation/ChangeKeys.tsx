import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api, got } from '../../api/client'
import { ActForm } from '../../ui/actform'
import { Loading, TextLink } from '../../ui/basics'
import { Dialog } from '../../ui/dialog'
import { CheckField } from '../../ui/form'
import { ProblemNote } from '../../ui/problem'
import { say } from '../../ui/toast'
import { called, keysChanged, type Allocation } from './allocation'
import { useKeys } from './keys'

/** ChangeKeys changes which SSH keys open an allocation. Keys of others that open it can be taken away, and not be added. */
export function ChangeKeys({ allocation: a, onClose }: { allocation: Allocation; onClose: () => void }) {
  const queries = useQueryClient()
  const { keys, loading, error } = useKeys(a.project_id)
  const before = a.ssh_keys.map((k) => k.ssh_key_id)
  const [chosen, setChosen] = useState(before)
  const offered = [...keys, ...a.ssh_keys.filter((k) => !keys.some((o) => o.id === k.ssh_key_id)).map((k) => ({ id: k.ssh_key_id, name: k.name, whose: 'of somebody else' }))]
  const body = keysChanged(before, chosen)
  const doing = useMutation({
    mutationFn: () => got(api.POST('/api/v1/projects/{project_id}/allocations/{allocation_id}/ssh-keys', { params: { path: { project_id: a.project_id, allocation_id: a.allocation_id } }, body })),
    onSuccess: () => {
      say('The node was notified.')
      void queries.invalidateQueries({ queryKey: ['allocations'] })
      onClose()
    },
  })
  return (
    <Dialog title={`SSH keys of ${called(a)}`} onClose={onClose}>
      {loading && <Loading what="SSH keys" />}
      {error && <ProblemNote error={error} />}
      {!loading && !error && (
        <ActForm doing={doing} does="Change" disabled={body.add.length + body.remove.length === 0} onClose={onClose}>
          {offered.length === 0 && (
            <p className="text-sm">
              Neither you nor the project has an SSH key: <TextLink to="/ssh-keys">add one</TextLink> first.
            </p>
          )}
          <fieldset className="flex flex-col gap-2">
            <legend className="mb-1 text-sm font-medium">Keys that give access</legend>
            {offered.map((k) => (
              <CheckField key={k.id} label={`${k.name} (${k.whose})`} value={chosen.includes(k.id)} onChange={(on) => setChosen(on ? [...chosen, k.id] : chosen.filter((id) => id !== k.id))} />
            ))}
          </fieldset>
          <p className="text-sm text-muted">Open connections stay open, and someone who was logged in may have left another way in. If that is a risk, release the allocation.</p>
        </ActForm>
      )}
    </Dialog>
  )
}
