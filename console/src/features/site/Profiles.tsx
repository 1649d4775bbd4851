import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api, got } from '../../api/client'
import { useSearchState } from '../../app/location'
import { useMay } from '../../app/session'
import { Badge, Button, Card, Loading, Note } from '../../ui/basics'
import { ProblemNote } from '../../ui/problem'
import { Table, type Column } from '../../ui/table'
import { span, When } from '../../ui/time'
import { say } from '../../ui/toast'
import { words } from '../../ui/tone'
import { ConfirmDialog } from '../../ui/confirm'
import { explanationOf } from './explained'
import { policyGroups, type Policy } from './policies'
import { EditProfile, NewProfile } from './ProfileForm'
import { defaultProfile, ifMatch, profilesQuery, type Profile, type Site } from './siteQueries'

const columns: Column<Profile>[] = [
  {
    key: 'name',
    title: 'Profile',
    width: 'minmax(12rem, 1.2fr)',
    cell: (p) => (
      <span className="flex items-center gap-2 font-medium">
        {p.name} {p.name === defaultProfile && <Badge tone="accent">if none is named</Badge>}
      </span>
    ),
  },
  { key: 'status', title: 'Status', width: '6rem', cell: (p) => <Badge tone={p.status === 'active' ? 'ok' : 'warn'}>{p.status}</Badge> },
  { key: 'image', title: 'Image', cell: (p) => p.distro_series, width: 'minmax(8rem, 1fr)' },
  { key: 'erase', title: 'Least erasing', width: '7.5rem', cell: (p) => words(p.minimum_erase) },
  { key: 'parallel', title: 'In parallel', width: '5rem', align: 'right', cell: (p) => p.batch_max_parallel },
  { key: 'description', title: 'Description', width: 'minmax(10rem, 2fr)', cell: (p) => p.description },
  { key: 'updated', title: 'Changed', width: '7rem', cell: (p) => <When at={p.updated_at} /> },
]

/** Profiles are the policies that work at a site is done by. */
export function Profiles({ site }: { site: Site }) {
  const profiles = useQuery(profilesQuery(site.site_id))
  const [search, change] = useSearchState()
  const may = useMay()
  if (profiles.isPending) return <Loading what="profiles" />
  if (!profiles.data) return <ProblemNote error={profiles.error} onRetry={() => void profiles.refetch()} />
  const usual = profiles.data.find((p) => p.name === defaultProfile)
  const shown = profiles.data.find((p) => p.profile_id === search.profile) ?? usual
  const close = () => change({ profile: undefined })
  if (search.profile === 'new' && may('site:manage')) return <NewProfile site={site} from={usual} onClose={close} onDone={(id) => change({ profile: id })} />
  return (
    <div className="flex flex-col gap-4">
      <div className="flex flex-wrap items-center justify-between gap-2">
        <p className="max-w-3xl text-sm text-muted">A profile is how work is done: time limits, image, network, erasing. An onboarding that names none uses the default.</p>
        {may('site:manage') && <Button onClick={() => change({ profile: 'new' })}>New profile</Button>}
      </div>
      <Table label="Profiles" columns={columns} rows={profiles.data} rowKey={(p) => p.profile_id} onOpen={(p) => change({ profile: p.profile_id })} />
      {shown && <OneProfile key={shown.profile_id} profile={shown} onGone={close} />}
    </div>
  )
}

function OneProfile({ profile, onGone }: { profile: Profile; onGone: () => void }) {
  const [asked, setAsked] = useState<'edit' | 'status' | 'delete'>()
  const may = useMay()
  const close = () => setAsked(undefined)
  if (asked === 'edit') return <EditProfile profile={profile} onClose={close} />
  const usual = profile.name === defaultProfile
  const disabled = profile.status === 'disabled'
  return (
    <section aria-label={`Profile ${profile.name}`} className="flex flex-col gap-4">
      <div className="flex flex-wrap items-center justify-between gap-2">
        <h2 className="text-base font-semibold">
          {profile.name} {usual && <span className="text-sm font-normal text-muted">meant when a request names none</span>}
        </h2>
        {may('site:manage') && (
          <div className="flex flex-wrap gap-2">
            <Button onClick={() => setAsked('edit')}>Edit profile</Button>
            {!usual && <Button onClick={() => setAsked('status')}>{disabled ? 'Enable' : 'Disable'}</Button>}
            {!usual && <Button onClick={() => setAsked('delete')}>Delete</Button>}
          </div>
        )}
      </div>
      {disabled && <Note tone="warn" title="A disabled profile is not used for new work" />}
      <div className="columns-1 gap-4 lg:columns-2 2xl:columns-3">
        {policyGroups.map((g) => (
          <Card key={g.title} title={g.title} className="mb-4 break-inside-avoid">
            <p className="mb-3 text-xs text-muted">{g.lead}</p>
            <dl className="flex flex-col gap-3">
              {g.policies.map((p) => (
                <OnePolicy key={p.field} policy={p} value={(profile as unknown as Record<string, unknown>)[p.field]} />
              ))}
            </dl>
          </Card>
        ))}
      </div>
      {asked && <Asking what={asked} profile={profile} onGone={onGone} onClose={close} />}
    </section>
  )
}

function Asking({ what, profile: shown, onGone, onClose }: { what: 'status' | 'delete'; profile: Profile; onGone: () => void; onClose: () => void }) {
  // The profile as it was when this was asked: what others change meanwhile does not turn the question round.
  const [profile] = useState(shown)
  const queries = useQueryClient()
  const path = { site_id: profile.site_id, profile_id: profile.profile_id }
  const done = (text: string) => {
    void queries.invalidateQueries({ queryKey: ['sites', profile.site_id] })
    say(text)
  }
  if (what === 'delete') {
    return (
      <ConfirmDialog
        title={`Delete profile ${profile.name}`}
        does="Delete profile"
        danger
        confirm={profile.name}
        act={() => got(api.DELETE('/api/v1/admin/maas-sites/{site_id}/profiles/{profile_id}', { params: { path } }))}
        onDone={() => {
          done(`Profile ${profile.name} is deleted.`)
          onGone()
        }}
        onClose={onClose}
      >
        <p>The profile is taken out of use. Nodes that were onboarded by it keep its policy.</p>
      </ConfirmDialog>
    )
  }
  const enable = profile.status === 'disabled'
  return (
    <ConfirmDialog
      title={`${enable ? 'Enable' : 'Disable'} profile ${profile.name}`}
      does={enable ? 'Enable' : 'Disable'}
      act={() => got(api.PATCH('/api/v1/admin/maas-sites/{site_id}/profiles/{profile_id}', { params: { path, header: ifMatch(profile) }, body: { status: enable ? 'active' : 'disabled' } }))}
      onDone={() => done(`Profile ${profile.name} is ${enable ? 'enabled' : 'disabled'}.`)}
      onClose={onClose}
    >
      <p>{enable ? 'This profile can be used for new work again.' : 'This profile is no longer used for new work. Running work continues.'}</p>
    </ConfirmDialog>
  )
}

function OnePolicy({ policy, value }: { policy: Policy; value: unknown }) {
  return (
    <div className="grid grid-cols-[minmax(0,1fr)_auto] items-baseline gap-x-4">
      <dt className="text-sm font-medium">{policy.label}</dt>
      <dd className="text-right text-sm break-words tabular-nums">{policyValue(policy.field, value)}</dd>
      <dd className="col-span-2 text-xs text-muted">{explanationOf('SiteNewProfileBody', policy.field).description}</dd>
    </div>
  )
}

function policyValue(field: string, value: unknown) {
  if (typeof value === 'boolean') return <Badge tone={value ? 'info' : 'idle'}>{value ? 'yes' : 'no'}</Badge>
  if (typeof value === 'number' && field.endsWith('_seconds')) return span(value)
  if (field === 'pxe_vlan_vid') return value === -1 ? 'as the site' : value === 0 ? 'untagged' : String(value)
  if (value === '') return <span className="text-muted">{field === 'site_bootstrap_bundle_ref' ? 'none' : 'as the site'}</span>
  return String(value)
}
