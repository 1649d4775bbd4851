import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api, got } from '../../api/client'
import { Button } from '../../ui/basics'
import { Dialog } from '../../ui/dialog'
import { SelectField } from '../../ui/form'
import { ProblemNote } from '../../ui/problem'
import { Bootstrap } from './Bootstrap'
import type { Detail } from './queries'

const explained = {
  bootstrap: 'It lets this machine enrol as this node. Earlier bootstraps that were not used stop working.',
  recovery: 'It gives the agent of this node a new certificate when its own has expired or was revoked. Tasks that are still queued for the node will not run.',
}

/** IssueBootstrap issues a bootstrap, or a recovery, and shows it this once. */
export function IssueBootstrap({ node, purpose, onClose }: { node: Detail; purpose: 'bootstrap' | 'recovery'; onClose: () => void }) {
  const [mode, setMode] = useState('shell')
  const queries = useQueryClient()
  const issuing = useMutation({
    mutationFn: () => got(api.POST('/api/v1/admin/nodes/{node_id}/bootstrap', { params: { path: { node_id: node.node_id } }, body: { purpose, mode: mode === 'cloud_init' ? 'cloud_init' : 'shell' } })),
    onSuccess: () => void queries.invalidateQueries({ queryKey: ['nodes'] }),
    gcTime: 0, // the answer is a secret
  })
  const [warned, setWarned] = useState(false)
  // A key pressed in passing must not lose what is shown once.
  const leave = issuing.data ? () => setWarned(true) : onClose
  return (
    <Dialog title={`${purpose === 'recovery' ? 'Recovery bootstrap' : 'Bootstrap'} for ${node.hostname}`} onClose={leave} wide>
      {issuing.data ? (
        <Bootstrap bootstrap={issuing.data} recovery={purpose === 'recovery'} warned={warned} onClose={onClose} />
      ) : (
        <div className="flex flex-col gap-4">
          <p className="text-sm">{explained[purpose]}</p>
          <SelectField
            label="How the machine gets its bootstrap"
            value={mode}
            onChange={setMode}
            options={[
              { value: 'shell', label: 'a command to run as root' },
              { value: 'cloud_init', label: 'user data for the first boot' },
            ]}
          />
          {issuing.error && <ProblemNote error={issuing.error} />}
          <div className="flex justify-end gap-2">
            <Button disabled={issuing.isPending} onClick={onClose}>
              Cancel
            </Button>
            <Button look="primary" busy={issuing.isPending} onClick={() => issuing.mutate()}>
              Issue it
            </Button>
          </div>
        </div>
      )}
    </Dialog>
  )
}
