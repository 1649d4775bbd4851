import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useState, type ReactNode } from 'react'
import { api, asRefusal, got } from '../../api/client'
import { useMe } from '../../app/session'
import { ActForm } from '../../ui/actform'
import { Button, Card, Facts, Loading } from '../../ui/basics'
import { Dialog } from '../../ui/dialog'
import { SelectField, TextField } from '../../ui/form'
import { lifeHint } from '../../ui/life'
import { ProblemNote } from '../../ui/problem'
import { When } from '../../ui/time'
import { say } from '../../ui/toast'
import { mayIn } from '../access/roles'
import { useRentalSettings } from './reading'
import { draftOf, lasting, settledBy, valuesOf, type Draft, type Settings } from './settings'

type Owner = { orgId: string; projectId?: string }

/** RentalSettings is how long a tenant or a project rents by default and at most, and whether with root. */
export function RentalSettings({ of }: { of: Owner }) {
  const me = useMe()
  const settings = useRentalSettings(of)
  const [changing, setChanging] = useState<{ settings: Settings; etag: string }>()
  const mayChange = mayIn(me, of.projectId ? 'project:update' : 'tenant:update', of)
  const s = settings.data?.body
  return (
    <Card title="Rental settings" actions={mayChange && s && <Button onClick={() => setChanging({ settings: s, etag: settings.data?.etag ?? '' })}>Change the settings …</Button>}>
      <p className="mb-2 text-sm text-muted">They apply to new and extended allocations. {of.projectId ? 'A project cannot allow more than its tenant.' : 'Projects can allow less.'}</p>
      {settings.error && <ProblemNote error={settings.error} onRetry={() => void settings.refetch()} />}
      {settings.isPending && <Loading what="the settings" />}
      {s && <Facts of={factsOf(s)} />}
      {changing && <Change of={of} settings={changing.settings} etag={changing.etag} onClose={() => setChanging(undefined)} />}
    </Card>
  )
}

function factsOf({ in_force: now, updated_at }: Settings): [string, ReactNode][] {
  const value = (text: string, from: typeof now.root_access_from) => (
    <span key={text}>
      {text} <span className="text-muted">· {settledBy(from)}</span>
    </span>
  )
  return [
    ['Lasts, if the request names no end', value(lasting(now.default_expiry_seconds, 'until it is released'), now.default_expiry_from)],
    ['Lasts at most', value(lasting(now.max_expiry_seconds, 'no limit'), now.max_expiry_from)],
    ['Root access', value(now.root_access ? 'allowed, if the SKU offers it' : 'not allowed', now.root_access_from)],
    ...(updated_at ? [['Changed here', <When key="u" at={updated_at} />] as [string, ReactNode]] : []),
  ]
}

function Change({ of, settings, etag, onClose }: { of: Owner; settings: Settings; etag: string; onClose: () => void }) {
  const queries = useQueryClient()
  const [draft, setDraft] = useState(draftOf(settings))
  const change = (patch: Partial<Draft>) => setDraft({ ...draft, ...patch })
  const { body, wrong } = valuesOf(draft)
  const above = of.projectId ? 'tenant' : 'platform'
  const left = { value: 'left', label: `as the ${above} has it` }
  const changing = useMutation({
    mutationFn: async () => {
      const header = { 'If-Match': etag }
      await (of.projectId ? got(api.PUT('/api/v1/projects/{project_id}/rental-settings', { params: { path: { project_id: of.projectId }, header }, body })) : got(api.PUT('/api/v1/tenants/{org_id}/rental-settings', { params: { path: { org_id: of.orgId }, header }, body })))
    },
    onSuccess: () => {
      say('The settings are changed.')
      for (const key of ['projects', 'tenants']) void queries.invalidateQueries({ queryKey: [key, 'rental-settings'] })
      onClose()
    },
  })
  const refused = changing.error ? asRefusal(changing.error).fields : {}
  return (
    <Dialog title="Change the rental settings" onClose={onClose}>
      <ActForm doing={changing} does="Change" leave="Cancel" disabled={!!wrong.usual || !!wrong.most} onClose={onClose}>
        <SelectField label="Default duration of an allocation" value={draft.usual} onChange={(v) => change({ usual: v as Draft['usual'] })} options={[left, { value: 'never', label: 'until it is released' }, { value: 'set', label: 'so long' }]} error={draft.usual === 'set' ? undefined : refused.default_expiry_seconds} />
        {draft.usual === 'set' && <TextField label="It lasts" required value={draft.usualLife} onChange={(v) => change({ usualLife: v })} hint={lifeHint} error={wrong.usual ?? refused.default_expiry_seconds} />}
        <SelectField label="An allocation lasts at most" value={draft.most} onChange={(v) => change({ most: v as Draft['most'] })} options={[left, { value: 'set', label: 'so long' }]} hint="With a maximum, every allocation ends. Users extend the ones they still need." />
        {draft.most === 'set' && <TextField label="At most" required value={draft.mostLife} onChange={(v) => change({ mostLife: v })} hint={lifeHint} error={wrong.most ?? refused.max_expiry_seconds} />}
        <SelectField label="Root access" value={draft.root} onChange={(v) => change({ root: v as Draft['root'] })} options={[left, { value: 'yes', label: 'may be asked for' }, { value: 'no', label: 'cannot be had' }]} error={refused.root_access} />
        <p className="text-sm text-muted">Existing allocations keep their terms.</p>
      </ActForm>
    </Dialog>
  )
}
