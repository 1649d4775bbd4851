import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useId, useState } from 'react'
import { api, got, type Schemas } from '../../api/client'
import { ActForm } from '../../ui/actform'
import { ConfirmDialog } from '../../ui/confirm'
import { Dialog } from '../../ui/dialog'
import { SelectField, TextField } from '../../ui/form'
import { say } from '../../ui/toast'
import { wrongRef, wrongSize } from './bundle'
import { defaultProfile, profilesQuery, type Site } from './siteQueries'
import { upload } from './uploadBundle'

type Bundle = Schemas['SiteBundleView']
type Props = { site: Site; onClose: () => void }

/** useDone says what was done, and has the site read anew. */
function useDone(site: Site, onClose: () => void) {
  const queries = useQueryClient()
  return (text: string) => {
    say(text)
    void queries.invalidateQueries({ queryKey: ['sites', site.site_id] })
    onClose()
  }
}

/** UploadBundle sends a program. The digest is made here: what arrives damaged is refused. */
export function UploadBundle({ site, onClose }: Props) {
  const id = useId()
  const done = useDone(site, onClose)
  const [ref, setRef] = useState('')
  const [file, setFile] = useState<File>()
  const doing = useMutation({
    mutationFn: async () => upload(site.site_id, ref, new Uint8Array(file ? await file.arrayBuffer() : [])),
    onSuccess: (b) => done(`${b.ref} is there. No profile uses it yet.`),
  })
  const wrong = file && wrongSize(file.size)
  return (
    <Dialog title="Upload a bundle" onClose={onClose}>
      <ActForm doing={doing} does="Upload" leave="Cancel" disabled={!file || !!wrong || !!wrongRef(ref)} onClose={onClose}>
        <p className="text-sm">Machines whose profile uses it run it as root at their first boot. Nothing uses it until a profile names it.</p>
        <TextField label="Name and version" required value={ref} onChange={setRef} placeholder="site-setup@2" hint="NAME@VERSION. A version is given once, and its content never changes." error={ref ? wrongRef(ref) : undefined} />
        <div className="flex flex-col gap-1">
          <label htmlFor={id} className="text-sm font-medium">
            File
          </label>
          <input id={id} type="file" required onChange={(e) => setFile(e.target.files?.[0])} className="text-sm" />
          {wrong && (
            <p role="alert" className="text-xs text-bad">
              {wrong}
            </p>
          )}
        </div>
      </ActForm>
    </Dialog>
  )
}

/** useProfileChoice lets one choose a profile of the site. */
function useProfileChoice(site: Site) {
  const profiles = useQuery(profilesQuery(site.site_id)).data ?? []
  const [chosen, setChosen] = useState('')
  const profile = profiles.find((p) => p.profile_id === chosen) ?? profiles[0]
  const field = <SelectField label="Profile" value={profile?.profile_id ?? ''} onChange={setChosen} options={profiles.map((p) => ({ value: p.profile_id, label: p.name === defaultProfile ? `${p.name} (if none is named)` : p.name }))} hint={`Uses now: ${profile?.site_bootstrap_bundle_ref || 'none'}.`} />
  return { profile, field }
}

/** UseBundle has a profile use a bundle from now on. */
export function UseBundle({ site, bundle, onClose }: Props & { bundle: Bundle }) {
  const done = useDone(site, onClose)
  const { profile, field } = useProfileChoice(site)
  const doing = useMutation({
    mutationFn: () => got(api.POST('/api/v1/admin/maas-sites/{site_id}/profiles/{profile_id}/bundle', { params: { path: { site_id: site.site_id, profile_id: profile?.profile_id ?? '' } }, body: { ref: bundle.ref, sha256: bundle.sha256 } })),
    onSuccess: () => done(`${profile?.name ?? 'The profile'} uses ${bundle.ref}.`),
  })
  return (
    <Dialog title={`Use ${bundle.ref}`} onClose={onClose}>
      <ActForm doing={doing} does="Use it" disabled={!profile} onClose={onClose}>
        <p className="text-sm">Machines that are installed from now on by this profile run it at their first boot. The profile remembers the one before.</p>
        {field}
      </ActForm>
    </Dialog>
  )
}

/** RollBack has a profile use the bundle that it used before. */
export function RollBack({ site, onClose }: Props) {
  const done = useDone(site, onClose)
  const { profile, field } = useProfileChoice(site)
  const doing = useMutation({
    mutationFn: () => got(api.POST('/api/v1/admin/maas-sites/{site_id}/profiles/{profile_id}/bundle/rollback', { params: { path: { site_id: site.site_id, profile_id: profile?.profile_id ?? '' } } })),
    onSuccess: () => done(`${profile?.name ?? 'The profile'} uses the bundle from before.`),
  })
  return (
    <Dialog title="Roll a profile back" onClose={onClose}>
      <ActForm doing={doing} does="Roll back" disabled={!profile} onClose={onClose}>
        <p className="text-sm">The profile uses the bundle again that it used before. A second rollback is refused: choose a version instead.</p>
        {field}
      </ActForm>
    </Dialog>
  )
}

/** DeleteBundle removes a version that no profile uses. */
export function DeleteBundle({ site, bundle, onClose }: Props & { bundle: Bundle }) {
  const done = useDone(site, onClose)
  return (
    <ConfirmDialog
      title={`Delete ${bundle.ref}`}
      does="Delete"
      danger
      act={() => got(api.DELETE('/api/v1/admin/maas-sites/{site_id}/bundles/{bundle_id}', { params: { path: { site_id: site.site_id, bundle_id: bundle.bundle_id } } }))}
      onDone={() => done(`${bundle.ref} is deleted.`)}
      onClose={onClose}
    >
      <p>The version is not given again. A profile that used it before cannot be rolled back to it.</p>
    </ConfirmDialog>
  )
}
