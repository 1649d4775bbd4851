import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useState, type SyntheticEvent } from 'react'
import { api, asRefusal, got, type Schemas } from '../../api/client'
import { useMay } from '../../app/session'
import { Badge, Button, Card, Code } from '../../ui/basics'
import { TextField } from '../../ui/form'
import { ProblemNote } from '../../ui/problem'
import { When } from '../../ui/time'
import { say } from '../../ui/toast'
import { bodyFrom, keptAfter, nothing, wrongWith, type Typed } from './credentialDraft'
import { explanationOf } from './explained'
import { ProbeCard } from './ProbeResult'
import { probeQuery, type Site } from './siteQueries'

/** Credentials of a site can be written and told apart, and never read. */
export function Credentials({ site }: { site: Site }) {
  const may = useMay()
  return (
    <div className="grid items-start gap-4 xl:grid-cols-2">
      <div className="flex min-w-0 flex-col gap-4">
        <Card title="What is there">
          <ul className="divide-y divide-line">
            <Kept title="MAAS token" of={site.api_token} missing="Without it nothing can be done at this site." />
            <Kept title="Password of the deploy user" of={site.deploy_password} missing="None is needed: every machine gets a login of its own." />
            <Kept title="Default BMC credentials" of={site.power} missing="Machines without an override of their own cannot be switched." />
          </ul>
          <p className="mt-3 text-xs text-muted">Secrets are kept by the secrets engine and shown to nobody. A fingerprint tells whether two of this site are the same.</p>
        </Card>
        {may('site:manage') && <WriteCredentials site={site} />}
      </div>
      <ProbeCard siteId={site.site_id} />
    </div>
  )
}

function Kept({ title, of, missing }: { title: string; of: Schemas['SiteCredentialView']; missing: string }) {
  return (
    <li className="flex items-start justify-between gap-3 py-2 text-sm first:pt-0">
      <span>
        <span className="block font-medium">{title}</span>
        <span className="block text-xs text-muted">
          {of.has_credentials ? (
            <>
              Written <When at={of.rotated_at} />
            </>
          ) : (
            missing
          )}
        </span>
      </span>
      <span className="flex flex-wrap items-center justify-end gap-2">
        {of.fingerprint && <Code>{of.fingerprint}</Code>}
        <Badge tone={of.has_credentials ? 'ok' : 'warn'}>{of.has_credentials ? 'written' : 'missing'}</Badge>
      </span>
    </li>
  )
}

function WriteCredentials({ site }: { site: Site }) {
  const queries = useQueryClient()
  const probe = useQuery(probeQuery(site.site_id))
  const [typed, setTyped] = useState(nothing)
  const [tried, setTried] = useState(false)
  const writing = useMutation({
    mutationFn: () => got(api.POST('/api/v1/admin/maas-sites/{site_id}/credentials', { params: { path: { site_id: site.site_id } }, body: bodyFrom(typed) })),
    onSuccess: () => {
      setTyped(nothing)
      say(`Credentials of ${site.name} are written.`)
      void queries.invalidateQueries({ queryKey: ['sites'] })
      void probe.refetch() // the card of the check shows what came of it
    },
    onError: (error) => setTyped(keptAfter(typed, asRefusal(error).status)),
    onSettled: () => setTried(false),
  })
  const wrong = wrongWith(typed)
  const refused = writing.error ? asRefusal(writing.error).fields : {}
  const error = (field: keyof Typed, path: string = field) => (tried ? wrong[field] : undefined) ?? refused[path]
  const set = (field: keyof Typed) => (value: string) => setTyped({ ...typed, [field]: value })
  const empty = Object.values(typed).every((v) => v === '')
  const submit = (e: SyntheticEvent) => {
    e.preventDefault()
    setTried(true)
    if (Object.keys(wrong).length === 0) writing.mutate()
  }
  return (
    <Card title="Write credentials">
      <form noValidate onSubmit={submit} className="flex flex-col gap-4">
        <p className="text-sm text-muted">What you leave empty stays as it is. Secrets are emptied once they were taken or refused, and the site is checked.</p>
        <TextField type="password" label="MAAS token" value={typed.api_token} onChange={set('api_token')} error={error('api_token')} hint={explanationOf('SiteCredentialsBody', 'api_token').description} />
        <TextField type="password" label={`Password of ${site.deploy_user}`} value={typed.deploy_password} onChange={set('deploy_password')} error={error('deploy_password')} hint={explanationOf('SiteCredentialsBody', 'deploy_password').description} />
        <div className="grid items-start gap-4 sm:grid-cols-2">
          <TextField label="BMC account" value={typed.user} onChange={set('user')} error={error('user', 'power.user')} hint={explanationOf('SiteCredentialsBody', 'power').description} />
          <TextField type="password" label="BMC password" value={typed.pass} onChange={set('pass')} error={error('pass', 'power.pass')} />
        </div>
        {writing.error && <ProblemNote error={writing.error} />}
        <div className="flex justify-end">
          <Button type="submit" look="primary" busy={writing.isPending} disabled={empty}>
            Write and check
          </Button>
        </div>
      </form>
    </Card>
  )
}
