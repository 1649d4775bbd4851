import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useState, type SyntheticEvent } from 'react'
import { api, got, type Schemas } from '../../api/client'
import { Button } from '../../ui/basics'
import { ProblemNote } from '../../ui/problem'
import { say } from '../../ui/toast'
import { bodyOf, draftOf, emptied, wrongs, type Draft, type Rule } from './explained'
import { ExplainedField, Section, useExplainedForm } from './ExplainedForm'
import { policyFields, policyGroups } from './policies'
import { architectureRule, bundleRule, ifaceRule, imageRule, intervalRule, nameRule } from './rules'
import { defaultProfile, ifMatch, type Profile, type Site } from './siteQueries'

const rules: Record<string, Rule> = {
  name: nameRule,
  distro_series: imageRule,
  architecture: architectureRule,
  pxe_iface: ifaceRule,
  node_pxe_iface: ifaceRule,
  hardware_sync_interval: intervalRule,
  site_bootstrap_bundle_ref: bundleRule,
}

const mayBeEmpty = ['description', 'pxe_iface', 'node_pxe_iface', 'site_bootstrap_bundle_ref']

const wrongProfile = (before: Draft) => (draft: Draft) => ({ ...wrongs('SiteNewProfileBody', draft, rules), ...emptied(draft, before, mayBeEmpty) })

const fields = ['name', 'description', ...policyFields]

/** NewProfile begins as a copy of the default profile, so that every policy has a value to judge. */
export function NewProfile({ site, from, onClose, onDone }: { site: Site; from?: Profile; onClose: () => void; onDone: (profileId: string) => void }) {
  const queries = useQueryClient()
  const [initial] = useState(() => ({ ...draftOf('SiteNewProfileBody', fields, { ...from }), name: '', description: '' }))
  const send = async (draft: Draft) => {
    const body = bodyOf('SiteNewProfileBody', draft) as Schemas['SiteNewProfileBody']
    const made = await got(api.POST('/api/v1/admin/maas-sites/{site_id}/profiles', { params: { path: { site_id: site.site_id } }, body }))
    void queries.invalidateQueries({ queryKey: ['sites', site.site_id] })
    say(`Profile ${made.name} is created.`)
    onDone(made.profile_id)
  }
  return (
    <div className="flex flex-col gap-3">
      <h2 className="text-base font-semibold">New profile</h2>
      <p className="text-sm text-muted">It begins as a copy of the default profile. Change what should be different.</p>
      <ProfileForm initial={initial} does="Create profile" send={send} onClose={onClose} />
    </div>
  )
}

export function EditProfile({ profile, onClose }: { profile: Profile; onClose: () => void }) {
  const queries = useQueryClient()
  // What was there when the form was opened: it says what has changed, and of which version.
  const [before] = useState(profile)
  const [initial] = useState(() => draftOf('SiteNewProfileBody', fields, { ...profile }))
  const send = async (draft: Draft) => {
    const body = bodyOf('SiteNewProfileBody', draft, initial) as Schemas['SiteProfileChangeBody']
    const path = { site_id: before.site_id, profile_id: before.profile_id }
    if (Object.keys(body).length > 0) await got(api.PATCH('/api/v1/admin/maas-sites/{site_id}/profiles/{profile_id}', { params: { path, header: ifMatch(before) }, body }))
    void queries.invalidateQueries({ queryKey: ['sites', before.site_id] })
    say(`Profile ${before.name} is changed.`)
    onClose()
  }
  return (
    <div className="flex flex-col gap-3">
      <h2 className="text-base font-semibold">Edit profile {before.name}</h2>
      <ProfileForm initial={initial} usual={before.name === defaultProfile} does="Save changes" send={send} onClose={onClose} />
    </div>
  )
}

function ProfileForm({ initial, usual, does, send, onClose }: { initial: Draft; usual?: boolean; does: string; send: (draft: Draft) => Promise<void>; onClose: () => void }) {
  const form = useExplainedForm('SiteNewProfileBody', initial, wrongProfile(initial))
  const sending = useMutation({ mutationFn: () => send(form.draft), onError: (error) => form.refused(error) })
  const submit = (e: SyntheticEvent) => {
    e.preventDefault()
    if (form.check()) sending.mutate()
  }
  const wrong = fields.filter((f) => form.wrong(f)).length
  return (
    <form noValidate onSubmit={submit} className="flex flex-col gap-4">
      <Section title="Profile" lead="What it is called, and what it is for.">
        <ExplainedField form={form} field="name" label="Name" disabled={usual} hint={usual ? 'The default profile keeps its name.' : undefined} />
        <ExplainedField form={form} field="description" label="Description" hint="What it is for, in a few words." />
      </Section>
      {policyGroups.map((g) => (
        <Section key={g.title} title={g.title} lead={g.lead}>
          {g.policies.map((p) => (
            <ExplainedField key={p.field} form={form} field={p.field} label={p.field.endsWith('_seconds') ? `${p.label} (seconds)` : p.label} />
          ))}
        </Section>
      ))}
      {sending.error && <ProblemNote error={sending.error} />}
      <div className="sticky bottom-0 flex flex-wrap items-center justify-end gap-2 border-t border-line bg-canvas py-3">
        {wrong > 0 && (
          <p role="status" className="mr-auto text-sm text-bad">
            {wrong === 1 ? 'One field needs correction.' : `${wrong} fields need correction.`}
          </p>
        )}
        <Button disabled={sending.isPending} onClick={onClose}>{does === 'Save changes' ? 'Keep as it is' : 'Cancel'}</Button>
        <Button type="submit" look="primary" busy={sending.isPending}>
          {does}
        </Button>
      </div>
    </form>
  )
}
