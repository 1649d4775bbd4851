import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useState, type SyntheticEvent } from 'react'
import { api, asRefusal, got, type Schemas } from '../../api/client'
import { useDraft } from '../../app/draft'
import { Button, Note, TextLink } from '../../ui/basics'
import { Dialog } from '../../ui/dialog'
import { SelectField, TextField } from '../../ui/form'
import { ProblemNote } from '../../ui/problem'
import { say } from '../../ui/toast'
import { Bootstrap } from './Bootstrap'

type Body = Schemas['NodeNewBody']

const hostnameForm = /^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$/

const blank = { hostname: '', sku: '', region_code: '', host: '', port: '', ssh_username: '', mode: 'shell' }

/** AddNode adds a machine that is installed already: the answer is a command that is shown once. */
export function AddNode({ regions, onClose }: { regions: string[]; onClose: () => void }) {
  const queries = useQueryClient()
  const [of, setOf, forget] = useDraft('new node', blank)
  const adding = useMutation({
    mutationFn: (body: Body) => got(api.POST('/api/v1/admin/nodes', { body })),
    onSuccess: (made) => {
      forget()
      say(`Node ${made.node.hostname} was added. It becomes active as soon as its agent connects.`)
      void queries.invalidateQueries({ queryKey: ['nodes'] })
      void queries.invalidateQueries({ queryKey: ['fleet'] })
    },
    gcTime: 0, // the answer is a secret
  })
  const made = adding.data
  const [warned, setWarned] = useState(false)
  // A key pressed in passing must not lose what is shown once.
  const leave = made ? () => setWarned(true) : onClose
  return (
    <Dialog title={made ? `Node ${made.node.hostname} was added` : 'Add a node by hand'} onClose={leave} wide>
      {made ? <Bootstrap bootstrap={made.bootstrap} nodeId={made.node.node_id} warned={warned} onClose={onClose} /> : <Form of={of} onChange={setOf} regions={regions} busy={adding.isPending} error={adding.error} onSend={(body) => adding.mutate(body)} onClose={onClose} />}
    </Dialog>
  )
}

function useSkus() {
  return useQuery({ queryKey: ['skus', 'active-for-node'], queryFn: () => got(api.GET('/api/v1/admin/skus', { params: { query: { status: 'active', page_size: 200 } } })) })
}

function Form({ of, onChange, regions, busy, error, onSend, onClose }: { of: typeof blank; onChange: (of: typeof blank) => void; regions: string[]; busy: boolean; error: unknown; onSend: (body: Body) => void; onClose: () => void }) {
  const skus = useSkus()
  const set = (field: keyof typeof of) => (value: string) => onChange({ ...of, [field]: value })
  const refused = error ? asRefusal(error).fields : {}
  const names = skus.data?.items ?? []
  const sku = of.sku || (names[0]?.sku_id ?? '')
  const badName = of.hostname !== '' && !hostnameForm.test(of.hostname) ? 'Lower-case letters, digits, dashes and dots.' : undefined
  const badPort = of.port !== '' && !(Number(of.port) >= 1 && Number(of.port) <= 65535) ? 'A port is a number from 1 to 65535.' : undefined
  const submit = (e: SyntheticEvent) => {
    e.preventDefault()
    onSend({
      hostname: of.hostname,
      sku,
      region_code: of.region_code,
      host: of.host || undefined,
      port: Number(of.port || 22),
      onboarding_mode: 'manual',
      ssh_username: of.ssh_username || undefined,
      bootstrap_mode: of.mode === 'cloud_init' ? 'cloud_init' : 'shell',
    })
  }
  return (
    <form onSubmit={submit} className="flex flex-col gap-4">
      <p className="text-sm text-muted">
        For a machine that already has an operating system and that MAAS does not manage. To add machines of a site, use <TextLink to="/onboardings/new">onboarding</TextLink>.
      </p>
      {skus.data && names.length === 0 && (
        <Note tone="warn" title="There is no SKU yet">
          Every node has a SKU. Create one first: <TextLink to="/skus">SKUs</TextLink>.
        </Note>
      )}
      <div className="grid gap-4 sm:grid-cols-2">
        <TextField label="Hostname" required value={of.hostname} onChange={set('hostname')} error={badName ?? refused.hostname} hint="Unique within its region." placeholder="c07u31" />
        <SelectField label="SKU" required value={sku} onChange={set('sku')} options={names.map((s) => ({ value: s.sku_id, label: s.display_name || s.sku_id }))} error={refused.sku} hint="The kind of machine it is." />
        <TextField label="Region" required value={of.region_code} onChange={set('region_code')} list={regions} error={refused.region_code} placeholder="eu-1" />
        <TextField label="Host" value={of.host} onChange={set('host')} error={refused.host} hint="The address of the node. Empty: its hostname." />
        <TextField label="SSH port" type="number" value={of.port} onChange={set('port')} error={badPort ?? refused.port} placeholder="22" />
        <TextField label="SSH account" value={of.ssh_username} onChange={set('ssh_username')} error={refused.ssh_username} hint="The account that people sign in with. The control plane does not use it." />
        <SelectField
          label="How the machine gets its bootstrap"
          value={of.mode}
          onChange={set('mode')}
          options={[
            { value: 'shell', label: 'a command to run as root' },
            { value: 'cloud_init', label: 'user data for the first boot' },
          ]}
        />
      </div>
      {!!error && <ProblemNote error={error} />}
      <div className="flex justify-end gap-2">
        <Button disabled={busy} onClick={onClose}>
          Cancel
        </Button>
        <Button type="submit" look="primary" busy={busy} disabled={!of.hostname || !sku || !of.region_code || !!badName || !!badPort}>
          Add the node
        </Button>
      </div>
    </form>
  )
}
