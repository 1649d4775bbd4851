import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { api, asRefusal, got } from '../../api/client'
import { largestPage, readAll } from '../../api/readall'
import { useDraft } from '../../app/draft'
import { useMay } from '../../app/session'
import { ActForm } from '../../ui/actform'
import { Loading, Note } from '../../ui/basics'
import { Dialog } from '../../ui/dialog'
import { CheckField, SelectField, TextArea, TextField } from '../../ui/form'
import { ProblemNote } from '../../ui/problem'
import { say } from '../../ui/toast'
import { useOffered } from '../sku/offered'
import { wishOf, type Draft } from './reservation'

const nothing: Draft = { orgId: '', projectId: '', sku: '', nodes: '1', from: '', until: '', region: '', rack: '', pool: '', labels: '', reason: '', force: false }

/** NewReservation keeps nodes for somebody. More than the fleet has is refused, and can be made all the same. */
export function NewReservation({ onClose }: { onClose: () => void }) {
  const may = useMay()
  const queries = useQueryClient()
  const navigate = useNavigate()
  const [typed, setTyped, forget] = useDraft('new reservation', nothing)
  const change = (patch: Partial<Draft>) => setTyped({ ...typed, ...patch })
  const tenants = useQuery({ queryKey: ['tenants', 'all'], queryFn: () => readAll((cursor) => got(api.GET('/api/v1/tenants', { params: { query: { cursor, page_size: largestPage } } }))) })
  const { skus, pending, error } = useOffered()
  const draft = { ...typed, orgId: typed.orgId || tenants.data?.rows[0]?.org_id || '', sku: typed.sku || skus[0]?.sku_id || '' }
  const projects = useQuery({
    queryKey: ['projects', 'of', draft.orgId, 'all'],
    queryFn: () => readAll((cursor) => got(api.GET('/api/v1/tenants/{org_id}/projects', { params: { path: { org_id: draft.orgId }, query: { cursor, page_size: largestPage } } }))),
    enabled: draft.orgId !== '',
  })
  // The time is read when something is typed, which is often enough to judge it.
  const [now] = useState(() => Date.now())
  const { body, wrong, ready } = wishOf(draft, now)
  const making = useMutation({
    mutationFn: () => got(api.POST('/api/v1/reservations', { body })),
    onSuccess: (made) => {
      forget()
      say(made.short_by > 0 ? `It is reserved; ${made.short_by} nodes are missing as yet.` : 'It is reserved.', made.short_by > 0 ? 'warn' : 'ok')
      void queries.invalidateQueries({ queryKey: ['reservations'] })
      onClose()
      void navigate({ to: `/reservations/${made.reservation_id}` })
    },
  })
  const refusal = making.error ? asRefusal(making.error) : undefined
  const refused = refusal?.fields ?? {}
  const tooMany = refusal?.problem.code === 'reservation_exceeds_fleet' || draft.force
  const failed = tenants.error ?? error
  return (
    <Dialog title="Reserve nodes" onClose={onClose} wide>
      {failed && <ProblemNote error={failed} />}
      {(tenants.isPending || pending) && <Loading what="tenants and SKUs" />}
      {tenants.data?.rows.length === 0 && <Note title="There is no tenant yet">Create one under Access, then reserve nodes for it.</Note>}
      {tenants.data && tenants.data.rows.length > 0 && !pending && (
        <ActForm doing={making} does="Reserve" leave="Cancel" disabled={!ready} onClose={onClose}>
          <div className="grid gap-4 sm:grid-cols-2">
            <SelectField label="Tenant" value={draft.orgId} onChange={(orgId) => change({ orgId, projectId: '' })} options={tenants.data.rows.map((t) => ({ value: t.org_id, label: t.name }))} error={refused.org_id} />
            <SelectField label="Project" value={draft.projectId} onChange={(projectId) => change({ projectId })} options={[{ value: '', label: 'all of the tenant' }, ...(projects.data?.rows ?? []).map((p) => ({ value: p.project_id, label: p.name }))]} error={refused.project_id} />
            <SelectField label="SKU" value={draft.sku} onChange={(sku) => change({ sku })} options={skus.map((s) => ({ value: s.sku_id, label: s.display_name }))} error={refused.sku} />
            <TextField label="Nodes" type="number" required value={draft.nodes} onChange={(nodes) => change({ nodes })} error={wrong.nodes ?? refused.nodes} />
            <TextField label="Begins" type="datetime-local" value={draft.from} onChange={(from) => change({ from })} hint="In your time zone. Empty: it begins now." error={wrong.from ?? refused.starts_at} />
            <TextField label="Ends" type="datetime-local" required value={draft.until} onChange={(until) => change({ until })} error={wrong.until ?? refused.ends_at} />
            <TextField label="Region" value={draft.region} onChange={(region) => change({ region })} hint="Empty: any." error={refused.region} />
            <TextField label="Rack" value={draft.rack} onChange={(rack) => change({ rack })} hint="Empty: any. Tenants do not see it." error={refused.rack} />
            <TextField label="Pool" value={draft.pool} onChange={(pool) => change({ pool })} hint="Empty: the general one, the only one that tenants rent from by themselves." error={refused.pool} />
            <TextField label="Labels of the nodes" value={draft.labels} onChange={(labels) => change({ labels })} placeholder="public/tier=fast" hint="KEY=VALUE, separated by commas." error={wrong.labels ?? refused.labels} />
          </div>
          <TextArea label="Reason" rows={2} most={500} value={draft.reason} onChange={(reason) => change({ reason })} hint="The owner reads it." error={refused.reason} />
          {may('billing:manage') && (
            <CheckField
              label="Charge the owner for nodes that it does not use"
              value={!!draft.charge && !draft.force}
              onChange={(charge) => change({ charge })}
              hint="At the present price for reserved nodes. Otherwise the reservation costs nothing. A reservation that is made even if nodes are missing cannot be charged."
            />
          )}
          {tooMany && (
            <CheckField
              label="Reserve even if nodes are missing"
              value={draft.force}
              onChange={(force) => change({ force })}
              hint="The reservation then promises more nodes than there are. It takes nodes as they become free, after earlier reservations, and shows how many are missing. Rented nodes stay rented."
            />
          )}
          <p className="text-sm text-muted">A number is kept, not certain nodes. What the owner rents already counts as used, where it fits.</p>
        </ActForm>
      )}
    </Dialog>
  )
}
