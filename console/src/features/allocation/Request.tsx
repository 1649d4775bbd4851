import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useMemo, useState } from 'react'
import { api, asRefusal, got, type Schemas } from '../../api/client'
import { readAll } from '../../api/readall'
import { useDraft } from '../../app/draft'
import { ActForm } from '../../ui/actform'
import { Loading, Note } from '../../ui/basics'
import { Dialog } from '../../ui/dialog'
import { CheckField, SelectField, TextField } from '../../ui/form'
import { lifeHint } from '../../ui/life'
import { money } from '../../ui/money'
import { ProblemNote } from '../../ui/problem'
import { useRested } from '../../ui/rested'
import { span } from '../../ui/time'
import { say } from '../../ui/toast'
import { asked } from '../quota/quota'
import { quotasKey, readQuotas } from '../quota/queries'
import { useRentalSettings } from '../rentalsettings/reading'
import { lasting } from '../rentalsettings/settings'
import { useOffered } from '../sku/offered'
import { hourly, whyNot } from './allocation'
import { KeyChoice } from './KeyChoice'
import type { Project } from './projects'
import { arrangementWords, blank, explained, noRoot, choicesOf, priceWords, wishOf, type Arrangement, type Draft } from './request'

/** Request asks for nodes, and shows before what there is, what it costs, and what the quotas leave. */
export function Request({ project, onClose }: { project: Project; onClose: () => void }) {
  const { skus, error, pending, retry } = useOffered()
  const whole = skus.filter((s) => s.capacity_shape === 'node' && s.status === 'active')
  return (
    <Dialog title={`Rent nodes for ${project.name}`} onClose={onClose} wide>
      {error && <ProblemNote error={error} onRetry={retry} />}
      {pending && <Loading what="what can be rented" />}
      {!pending && !error && whole.length === 0 && <Note title="Nothing is offered yet">Operators decide what can be rented.</Note>}
      {whole[0] && <Form project={project} offered={whole} first={whole[0]} onClose={onClose} />}
    </Dialog>
  )
}

type Sku = Schemas['SkuView']

function Form({ project, offered, first, onClose }: { project: Project; offered: Sku[]; first: Sku; onClose: () => void }) {
  const queries = useQueryClient()
  const navigate = useNavigate()
  const [chosen, setSku] = useState(first.sku_id)
  const [draft, setDraft, forget] = useDraft(`nodes for ${project.project_id}`, blank)
  const sku = offered.find((s) => s.sku_id === chosen) ?? first
  const change = (patch: Partial<Draft>) => setDraft((before) => ({ ...before, ...patch }))
  const settings = useRentalSettings({ orgId: project.org_id, projectId: project.project_id })
  const settled = settings.data?.body.in_force
  const path = { project_id: project.project_id }
  // What can be had, and what it costs, does not depend on whether it waits.
  const wanted = JSON.stringify(explained(wishOf({ ...sku, currency: sku.price_currency }, draft, false).body))
  const question = useRested(wanted)
  const capacity = useQuery({
    queryKey: ['allocations', 'capacity', project.project_id, question],
    queryFn: () => got(api.POST('/api/v1/projects/{project_id}/allocations/explain', { params: { path }, body: JSON.parse(question) as ReturnType<typeof explained> })),
    placeholderData: (before) => before,
    refetchInterval: 10_000,
  })
  const scarce = capacity.data !== undefined && capacity.data.free < Number(draft.count)
  const rootless = noRoot(sku, settled)
  const currency = capacity.data?.cost?.currency ?? sku.price_currency
  const { body, wrong, ready } = wishOf({ ...sku, currency }, { ...draft, root: draft.root && !rootless }, scarce)
  const many = body.count ?? 1
  const cost = capacity.data && !capacity.isPlaceholderData ? (capacity.data.cost ?? null) : undefined
  const price = priceWords(cost, money(hourly(sku.price_minor, sku.gpus_total, many), sku.price_currency))
  const asking = useMutation({
    mutationFn: () => got(api.POST('/api/v1/projects/{project_id}/allocations', { params: { path }, body })),
    onSuccess: (made) => {
      forget()
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
    <ActForm doing={asking} does="Rent" leave="Cancel" disabled={!ready} onClose={onClose}>
      <SelectField label="What to rent" value={sku.sku_id} onChange={setSku} options={offered.map((s) => ({ value: s.sku_id, label: `${s.display_name}: ${s.gpus_total} × ${s.gpu_model}` }))} error={refused.sku} />
      <div className="grid gap-4 sm:grid-cols-2">
        <TextField label="How many nodes" type="number" value={draft.count} onChange={(count) => change({ count })} hint="You get all of them or none." error={wrong.count ?? refused.count} />
        <TextField label="Name" value={draft.name} onChange={(name) => change({ name })} hint="A name of your choice. Empty: the name of the node." error={refused.name} />
        <SelectField
          label="It ends"
          value={draft.life}
          onChange={(life) => change({ life: life as Draft['life'] })}
          options={[
            { value: 'settled', label: settled && settled.default_expiry_seconds > 0 ? `after ${span(settled.default_expiry_seconds)}, as usual here` : 'when it is given back, as usual here' },
            { value: 'set', label: 'after a time' },
            ...(settled?.max_expiry_seconds === 0 && settled.default_expiry_seconds > 0 ? [{ value: 'never', label: 'when you release it' }] : []),
          ]}
          hint={settled && settled.max_expiry_seconds > 0 ? `${lasting(settled.max_expiry_seconds, '')} at most; you can extend it again and again.` : undefined}
          error={refused.expires_in_seconds}
        />
        {draft.life === 'set' && <TextField label="After" required value={draft.lasts} onChange={(lasts) => change({ lasts })} hint={lifeHint} error={wrong.lasts} />}
      </div>
      <CheckField label="With sudo" value={draft.root && !rootless} disabled={!!rootless} onChange={(root) => change({ root })} hint={rootless ?? 'The node is reinstalled after your release, which takes longer than cleaning it.'} />
      <More project={project} sku={sku} currency={currency} draft={draft} change={change} wrong={wrong} refused={refused} />
      <p className="text-sm">
        {price.before} <strong>{price.amount}</strong> {price.after}
      </p>
      {cost?.refused && (
        <Note tone="warn" title="It would be refused">
          {cost.refused.message}. {cost.refused.remedy}
        </Note>
      )}
      <Allowed project={project} sku={sku} count={many} />
      {settings.error && <ProblemNote error={settings.error} onRetry={() => void settings.refetch()} />}
      {capacity.error && <ProblemNote error={capacity.error} />}
      {capacity.data && (
        <Note tone={scarce ? 'warn' : 'ok'} title={`${capacity.data.free} of ${capacity.data.nodes} such nodes are free now`}>
          {whyNot(capacity.data).join('; ')}
        </Note>
      )}
      {scarce && <TextField label="Wait for nodes up to" value={draft.waits} onChange={(waits) => change({ waits })} hint={`How long your request stays in the queue, at most a week. ${lifeHint} Empty: it is refused if there are not enough nodes.`} error={wrong.waits ?? refused.wait_up_to_seconds} />}
    </ActForm>
  )
}

type Fields = Record<string, string | undefined>

/** More is what else can be chosen, and rarely is. */
function More({ project, sku, currency, draft, change, wrong, refused }: { project: Project; sku: Sku; currency: string; draft: Draft; change: (patch: Partial<Draft>) => void; wrong: Fields; refused: Fields }) {
  const choices = useChoices(project.project_id, sku.sku_id)
  const [open, setOpen] = useState(false)
  // What is wrong must be seen: it keeps the request from being sent.
  const bad = [wrong.keys, wrong.nodeLabels, wrong.labels, wrong.most].some(Boolean)
  return (
    <details className="rounded-md border border-line px-3 py-2" open={open || bad} onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary className="cursor-pointer text-sm font-medium">More choices: keys, region, placement, price</summary>
      <div className="mt-3 flex flex-col gap-4">
        <KeyChoice projectId={project.project_id} chosen={draft.keys} onChange={(keys) => change({ keys })} wrong={wrong.keys ?? refused.ssh_key_ids} />
        <div className="grid gap-4 sm:grid-cols-2">
          <TextField label="Region" value={draft.region} onChange={(region) => change({ region })} list={choices.regions} hint="Empty: any." error={refused.region} />
          <SelectField label="Placement" value={draft.arrangement} onChange={(v) => change({ arrangement: v as Arrangement })} options={Object.entries(arrangementWords).map(([value, label]) => ({ value, label }))} hint="Best effort: the request does not wait for it." />
          <TextField label="Labels that a node must have" value={draft.nodeLabels} onChange={(nodeLabels) => change({ nodeLabels })} placeholder="public/tier=fast" list={choices.labels} hint={`KEY=VALUE, separated by commas. ${choices.labels.length ? `There are: ${choices.labels.join(', ')}.` : 'No node of this kind has labels for tenants.'}`} error={wrong.nodeLabels ?? refused.node_labels} />
          <TextField label="Labels of your own" value={draft.labels} onChange={(labels) => change({ labels })} placeholder="team=vision" hint="Words by which you know it again." error={wrong.labels ?? refused.labels} />
        </div>
        <TextField label="A node may cost for an hour at the most" value={draft.most} onChange={(most) => change({ most })} hint={`In ${currency}, after discounts. Nothing is rented at a higher price, also not later while the request waits. Left empty: at the price of now if it waits, whatever that is.`} error={wrong.most ?? refused.hour_most ?? refused['hour_most.amount_minor'] ?? refused['hour_most.currency']} />
        <CheckField label="Protected" value={draft.guarded} onChange={(guarded) => change({ guarded })} hint="It cannot be released until you remove the protection." />
      </div>
    </details>
  )
}

/** useChoices is the regions and the labels that nodes of a SKU can be asked for. */
function useChoices(projectId: string, sku: string): { regions: string[]; labels: string[] } {
  const found = useQuery({ queryKey: ['allocation-choices', projectId], queryFn: () => got(api.GET('/api/v1/projects/{project_id}/allocation-choices', { params: { path: { project_id: projectId } } })), staleTime: 60_000 }).data
  return useMemo(() => choicesOf(found?.choices ?? [], sku), [found, sku])
}

/** Allowed says what the quotas leave, for each that the request is held to. */
function Allowed({ project, sku, count }: { project: Project; sku: Sku; count: number }) {
  const owner = { orgId: project.org_id, projectId: project.project_id }
  const quotas = useQuery({ queryKey: [...quotasKey(owner), 'all'], queryFn: () => readAll((cursor) => readQuotas(owner, cursor)) })
  const held = asked(quotas.data?.rows ?? [], { sku: sku.sku_id, gpus: sku.gpus_total * count, nodes: count })
  if (quotas.error) return <ProblemNote error={quotas.error} onRetry={() => void quotas.refetch()} />
  if (held.length === 0) return null
  const over = held.some((m) => m.over)
  return (
    <Note tone={over ? 'warn' : 'info'} title={over ? 'This exceeds a quota' : 'Quotas'}>
      <ul>
        {held.map((m) => (
          <li key={`${m.quota.quota_id} ${m.unit}`}>
            The {m.quota.project_id ? 'project' : 'tenant'} may hold {m.limit} {m.unit}
            {m.quota.sku && ` of ${m.quota.sku}`}: {m.used} used, {m.asked} requested{m.over && ', too many'}.
          </li>
        ))}
      </ul>
    </Note>
  )
}
