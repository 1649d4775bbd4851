import { useMutation, useQueryClient } from '@tanstack/react-query'
import { api, asRefusal, got, type Schemas } from '../../api/client'
import { useDraft } from '../../app/draft'
import { ActForm } from '../../ui/actform'
import { Button, Note } from '../../ui/basics'
import { Dialog } from '../../ui/dialog'
import { CheckField, SelectField, TextArea, TextField } from '../../ui/form'
import { say } from '../../ui/toast'
import { selectorOf } from '../maintenance/maintenance'
import { useOffered } from '../sku/offered'
import { lifeOf, type Allocation } from './allocation'

type Kind = Schemas['MaintenancePlanBody']['kind']

const kinds: { value: Kind; label: string }[] = [
  { value: 'release', label: 'release: the allocation ends' },
  { value: 'reboot', label: 'reboot: the tenant keeps the node' },
  { value: 'pause', label: 'pause: the node is away for a while, the tenant keeps it' },
]

const anywhere = { region: '', rack: '', pool: '', sku: '', labels: '' }
const plan = { ...anywhere, kind: 'reboot' as Kind, opens: '24', closes: '26', consent: false, reason: '' }

/** Announce tells the tenants of nodes what will be done to them, or asks for consent: of one node, or of all rented nodes that are chosen. */
export function Announce({ allocation: a, onClose }: { allocation?: Allocation; onClose: () => void }) {
  const queries = useQueryClient()
  const [typed, setTyped, forget] = useDraft(`maintenance of ${a?.node_id ?? 'many'}`, plan)
  const { kind, opens, closes, consent, reason } = typed
  const where = Object.fromEntries(Object.keys(anywhere).map((k) => [k, typed[k as keyof typeof anywhere]])) as typeof anywhere
  const change = (patch: Partial<typeof plan>) => setTyped({ ...typed, ...patch })
  const stays = kind !== 'release'
  const due = lifeOf(closes)
  const begin = lifeOf(opens)
  const { selector, wrong } = selectorOf(where)
  const at = (seconds: number) => new Date(Date.now() + seconds * 1000).toISOString()
  const doing = useMutation({
    mutationFn: () => got(api.POST('/api/v1/admin/maintenances', { body: { ...(a ? { node_ids: [a.node_id] } : { selector }), kind, ask_consent: consent, reason: reason.trim(), due_at: at(due.seconds ?? 0), ...(stays && { not_before: at(begin.seconds ?? 0) }) } })),
    onSuccess: (made) => {
      forget()
      void queries.invalidateQueries({ queryKey: ['allocations'] })
      if (made.left_out.length > 0) return // it is said which, and why
      say(a ? 'Its tenant was notified.' : `The tenants of ${made.maintenances.length} nodes were notified.`)
      onClose()
    },
  })
  const refused = doing.error ? asRefusal(doing.error).fields : {}
  const nobody = !a && (selector === undefined || wrong !== undefined)
  if (doing.data) return <LeftOut made={doing.data} onClose={onClose} />
  return (
    <Dialog title={a ? `Announce maintenance of ${a.hostname}` : 'Announce maintenance'} onClose={onClose} wide={!a}>
      <ActForm doing={doing} does="Announce" leave="Cancel" disabled={nobody || reason.trim().length < 3 || !due.seconds || (stays && !begin.seconds)} onClose={onClose}>
        {!a && <Which where={where} onChange={change} wrong={wrong} />}
        <SelectField label="What it needs" value={kind} onChange={(v) => change({ kind: v as Kind })} options={kinds} />
        {stays && <TextField label="Not before, in hours from now" type="number" required value={opens} onChange={(v) => change({ opens: v })} error={begin.wrong ?? refused.not_before} />}
        <TextField label={stays ? 'Done by, in hours from now' : 'The allocation ends, in hours from now'} type="number" required value={closes} onChange={(v) => change({ closes: v })} error={due.wrong ?? refused.due_at} />
        <CheckField label="Ask for consent" value={consent} onChange={(v) => change({ consent: v })} hint="Nothing happens without it. Otherwise the tenant is only notified." />
        <TextArea label="Why" required rows={2} most={500} value={reason} onChange={(v) => change({ reason: v })} error={refused.reason} hint="The tenant can read it." />
      </ActForm>
    </Dialog>
  )
}

function Which({ where, onChange, wrong }: { where: typeof anywhere; onChange: (where: typeof anywhere) => void; wrong?: string }) {
  const { skus } = useOffered()
  const field = (name: keyof typeof anywhere) => ({ value: where[name], onChange: (v: string) => onChange({ ...where, [name]: v }) })
  return (
    <fieldset className="rounded-md border border-line p-3">
      <legend className="px-1 text-sm font-medium">Rented nodes that are so</legend>
      <div className="grid gap-3 sm:grid-cols-2">
        <TextField label="Rack" {...field('rack')} />
        <TextField label="Region" {...field('region')} />
        <TextField label="Pool" {...field('pool')} />
        <SelectField label="SKU" {...field('sku')} options={[{ value: '', label: 'any' }, ...skus.map((s) => ({ value: s.sku_id, label: s.display_name }))]} />
        <div className="sm:col-span-2">
          <TextField label="Labels" {...field('labels')} placeholder="disk=nvme" hint="KEY=VALUE, separated by commas. Fill in at least one of these fields." error={wrong} />
        </div>
      </div>
    </fieldset>
  )
}

/** LeftOut says which nodes nothing was announced for. */
function LeftOut({ made, onClose }: { made: Schemas['MaintenanceMadeView']; onClose: () => void }) {
  return (
    <Dialog title="It is announced" onClose={onClose}>
      <div className="flex flex-col gap-4">
        <Note tone={made.maintenances.length > 0 ? 'ok' : 'warn'} title={`The tenants of ${made.maintenances.length} nodes were notified; ${made.left_out.length} nodes are left out`} />
        <ul className="list-disc pl-5 text-sm">
          {made.left_out.map((l) => (
            <li key={l.node_id}>
              {l.hostname}: {l.reason}
            </li>
          ))}
        </ul>
        <div className="flex justify-end">
          <Button onClick={onClose}>Close</Button>
        </div>
      </div>
    </Dialog>
  )
}
