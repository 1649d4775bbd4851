import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { api, asRefusal, got } from '../../api/client'
import { ActForm } from '../../ui/actform'
import { Loading, Note, TextLink } from '../../ui/basics'
import { Dialog } from '../../ui/dialog'
import { CheckField, SelectField, TextField } from '../../ui/form'
import { ProblemNote } from '../../ui/problem'
import { say } from '../../ui/toast'
import { hourly, lifeOf, money, whyNot } from './allocation'

/** Request asks for nodes, and shows before what there is and what it costs. */
export function Request({ projectId, onClose }: { projectId: string; onClose: () => void }) {
  const queries = useQueryClient()
  const navigate = useNavigate()
  const [chosen, setSku] = useState('')
  const [count, setCount] = useState('1')
  const [name, setName] = useState('')
  const [hours, setHours] = useState('')
  const [wait, setWait] = useState('')
  const [root, setRoot] = useState(false)
  const skus = useQuery({ queryKey: ['skus', 'offered'], queryFn: () => got(api.GET('/api/v1/admin/skus', { params: { query: { status: 'active', page_size: 200 } } })) })
  const whole = (skus.data?.items ?? []).filter((s) => s.capacity_shape === 'node')
  const sku = whole.find((s) => s.sku_id === chosen) ?? whole[0]
  const many = Number(count)
  const wrong = Number.isInteger(many) && many >= 1 && many <= 64 ? undefined : 'From 1 to 64.'
  const life = lifeOf(hours)
  const patience = lifeOf(wait)
  const wrongWait = patience.wrong ?? ((patience.seconds ?? 0) > 604_800 ? 'A week (168) at most.' : undefined)
  const path = { project_id: projectId }
  const capacity = useQuery({
    queryKey: ['allocations', 'capacity', projectId, sku?.sku_id],
    queryFn: () => got(api.POST('/api/v1/projects/{project_id}/allocations/explain', { params: { path }, body: { sku: sku?.sku_id ?? '' } })),
    enabled: sku !== undefined,
    refetchInterval: 10_000,
  })
  const scarce = capacity.data !== undefined && capacity.data.free < many
  const asking = useMutation({
    mutationFn: () => got(api.POST('/api/v1/projects/{project_id}/allocations', { params: { path }, body: { sku: sku?.sku_id ?? '', count: many, name: name.trim() || undefined, access: root ? 'root' : undefined, wait_up_to_seconds: scarce ? patience.seconds : undefined, expires_in_seconds: life.seconds } })),
    onSuccess: (made) => {
      if (!('allocations' in made)) {
        say('Your request waits until there are enough nodes.')
        void queries.invalidateQueries({ queryKey: ['allocation-requests'] })
        onClose()
        return
      }
      say(made.allocations.length === 1 ? 'A node is reserved for you.' : `${made.allocations.length} nodes are reserved for you.`)
      void queries.invalidateQueries({ queryKey: ['allocations'] })
      onClose()
      if (made.allocations.length === 1) void navigate({ to: `/allocations/${made.allocation_id}` })
    },
  })
  const refused = asking.error ? asRefusal(asking.error).fields : {}
  return (
    <Dialog title="Rent nodes" onClose={onClose}>
      {skus.error && <ProblemNote error={skus.error} onRetry={() => void skus.refetch()} />}
      {skus.isPending && <Loading what="what can be rented" />}
      {skus.data && !sku && <Note title="Nothing is offered yet">Operators decide what can be rented.</Note>}
      {sku && (
        <ActForm doing={asking} does="Rent" leave="Cancel" disabled={wrong !== undefined || life.wrong !== undefined || (scarce && wrongWait !== undefined)} onClose={onClose}>
          <SelectField label="What to rent" value={sku.sku_id} onChange={setSku} options={whole.map((s) => ({ value: s.sku_id, label: `${s.display_name}: ${s.gpus_total} × ${s.gpu_model}` }))} error={refused.sku} />
          <TextField label="How many nodes" type="number" value={count} onChange={setCount} hint="All or none." error={wrong ?? refused.count} />
          <TextField label="Name" value={name} onChange={setName} hint="What you call it. Left empty, it is called after its node." error={refused.name} />
          <TextField label="Ends after so many hours" type="number" value={hours} onChange={setHours} hint="Left empty, the project's default counts; without one it never ends by itself." error={life.wrong ?? refused.expires_in_seconds} />
          <CheckField label="With sudo" value={root} onChange={setRoot} hint="The node is installed anew after you, which takes longer than cleaning it." />
          <p className="text-sm">
            <strong>{money(hourly(sku.price_minor, sku.gpus_total, wrong ? 1 : many), sku.price_currency)}</strong> an hour, from the moment it is yours until you give it back.
          </p>
          {capacity.error && <ProblemNote error={capacity.error} />}
          {capacity.data && (
            <Note tone={capacity.data.free >= many ? 'ok' : 'warn'} title={`${capacity.data.free} of ${capacity.data.nodes} such nodes can be had now`}>
              {whyNot(capacity.data).join('; ')}
            </Note>
          )}
          {scarce && <TextField label="Wait so many hours for nodes" type="number" value={wait} onChange={setWait} hint="Your request keeps its place in the queue so long. Left empty, it is refused while there are not enough nodes." error={wrongWait ?? refused.wait_up_to_seconds} />}
          <p className="text-xs text-muted">
            You log in with your own keys and those of the project: <TextLink to="/ssh-keys">SSH keys</TextLink>. The terminal in the browser needs none.
          </p>
        </ActForm>
      )}
    </Dialog>
  )
}
