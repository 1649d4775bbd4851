import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useState, type SyntheticEvent } from 'react'
import { api, asRefusal, got } from '../../api/client'
import { Button } from '../../ui/basics'
import { Dialog } from '../../ui/dialog'
import { SelectField, TextField } from '../../ui/form'
import { ProblemNote } from '../../ui/problem'
import { say } from '../../ui/toast'
import type { Detail } from './queries'

/** EditNode changes facts of a node; its state is changed by actions. */
export function EditNode({ node, etag, onClose }: { node: Detail; etag: string; onClose: () => void }) {
  const [of, setOf] = useState({
    host: node.host,
    port: String(node.port),
    ssh_username: node.ssh_username,
    gpus_total: String(node.gpus_total),
    channel: node.agent.agent_channel,
    version: node.agent.desired_agent_version,
    delivery: node.agent.desired_delivery_mode,
  })
  const set = (field: keyof typeof of) => (value: string) => setOf({ ...of, [field]: value })
  const queries = useQueryClient()
  const saving = useMutation({
    mutationFn: () =>
      got(
        api.PATCH('/api/v1/admin/nodes/{node_id}', {
          params: { path: { node_id: node.node_id }, header: { 'If-Match': etag } },
          body: {
            host: of.host,
            port: Number(of.port),
            ssh_username: of.ssh_username,
            gpus_total: Number(of.gpus_total),
            agent_channel: of.channel,
            desired_agent_version: of.version,
            desired_delivery_mode: of.delivery,
          },
        }),
      ),
    onSuccess: () => {
      say(`${node.hostname} was changed.`)
      void queries.invalidateQueries({ queryKey: ['nodes'] })
      onClose()
    },
  })
  const refused = saving.error ? asRefusal(saving.error).fields : {}
  const submit = (e: SyntheticEvent) => {
    e.preventDefault()
    saving.mutate()
  }
  return (
    <Dialog title={`Edit ${node.hostname}`} onClose={onClose} wide>
      <form onSubmit={submit} className="flex flex-col gap-4">
        <div className="grid gap-4 sm:grid-cols-2">
          <TextField label="Host" required value={of.host} onChange={set('host')} error={refused.host} hint="The address it is reached at." />
          <TextField label="SSH port" type="number" required value={of.port} onChange={set('port')} error={refused.port} />
          <TextField label="SSH account" value={of.ssh_username} onChange={set('ssh_username')} error={refused.ssh_username} hint="The account that people sign in with. The control plane does not use it." />
          <TextField label="GPUs" type="number" required value={of.gpus_total} onChange={set('gpus_total')} error={refused.gpus_total} />
          <SelectField label="Agent channel" value={of.channel} onChange={set('channel')} options={['unassigned', 'stable', 'candidate', 'pinned']} error={refused.agent_channel} hint="Which releases of the agent it receives." />
          <TextField label="Desired agent version" value={of.version} onChange={set('version')} error={refused.desired_agent_version} hint="Leave empty to follow the channel." />
          <SelectField label="Update method" value={of.delivery} onChange={set('delivery')} options={['reimage', 'manual_install', 'rebootstrap']} error={refused.desired_delivery_mode} hint="How a new agent version is installed." />
        </div>
        {saving.error && <ProblemNote error={saving.error} />}
        <div className="flex justify-end gap-2">
          <Button disabled={saving.isPending} onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" busy={saving.isPending}>
            Save
          </Button>
        </div>
      </form>
    </Dialog>
  )
}
