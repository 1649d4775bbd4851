import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { api, got, type Schemas } from '../../api/client'
import { useParam, useSearchState } from '../../app/location'
import { useMay } from '../../app/session'
import { Badge, Button, LinkButton, Loading, Note, Page, TextLink } from '../../ui/basics'
import { Dialog } from '../../ui/dialog'
import { ProblemNote } from '../../ui/problem'
import { Tabs } from '../../ui/tabs'
import { say } from '../../ui/toast'
import { ConfirmDialog } from '../../ui/confirm'
import { Bundles } from './Bundles'
import { Credentials } from './Credentials'
import { bodyOf, type Draft } from './explained'
import { PowerOverrides } from './PowerOverrides'
import { Profiles } from './Profiles'
import { RoceTable } from './RoceTable'
import { siteDraft } from './siteFields'
import { SiteForm } from './SiteForm'
import { SiteOverview } from './SiteOverview'
import { ifMatch, siteQuery, type Site } from './siteQueries'

/** SitePage is everything about one site. */
export default function SitePage() {
  const siteId = useParam('siteId')
  const site = useQuery(siteQuery(siteId))
  const back = <TextLink to="/sites">Sites</TextLink>
  if (site.isPending) return <Loading what="the site" />
  if (!site.data) {
    return (
      <Page title="Site" back={back}>
        <ProblemNote error={site.error} onRetry={() => void site.refetch()} />
      </Page>
    )
  }
  return <OneSite site={site.data} />
}

type Asked = 'edit' | 'disable' | 'delete'

function OneSite({ site }: { site: Site }) {
  const [search, change] = useSearchState()
  const [asked, setAsked] = useState<Asked>()
  const may = useMay()
  const disabled = site.status === 'disabled'
  const actions = (
    <>
      {may('onboarding:manage') && !disabled && (
        <LinkButton to="/onboardings/new" search={{ site: site.site_id }}>
          Onboard machines
        </LinkButton>
      )}
      {may('site:manage') && (
        <>
          <Button onClick={() => setAsked('edit')}>Edit</Button>
          <Button onClick={() => setAsked('disable')}>{disabled ? 'Enable' : 'Disable'}</Button>
          <Button onClick={() => setAsked('delete')}>Delete</Button>
        </>
      )}
    </>
  )
  return (
    <Page
      title={
        <>
          {site.name} <Badge tone={disabled ? 'warn' : 'ok'}>{site.status}</Badge>
        </>
      }
      back={<TextLink to="/sites">Sites</TextLink>}
      lead={`Region ${site.region_code}, MAAS at ${site.api_base_url}`}
      actions={actions}
    >
      {disabled && (
        <Note tone="warn" title="This site is disabled">
          It refuses new work and lets running work finish.
        </Note>
      )}
      {!site.api_base_url.startsWith('https://') && site.hw_sync_http === 'accepted' && (
        <Note tone="bad" title="Root on machines runs what plain HTTP brings">
          Somebody has accepted that for the program that reports hardware. Let MAAS speak https, or pin the program.
        </Note>
      )}
      {!site.api_base_url.startsWith('https://') && site.hw_sync_http === 'undecided' && (
        <Note tone="bad" title="Nobody has decided what root on machines may run">
          MAAS hands out the program that reports hardware over plain HTTP. New machines run it only with the digest that the control plane saw; root on machines of before may run whatever comes. Let MAAS
          speak https, pin the program, or accept that.
        </Note>
      )}
      {!site.api_token.has_credentials && search.tab !== 'credentials' && (
        <Note tone="warn" title="The MAAS token is missing" actions={may('site:manage') && <Button onClick={() => change({ tab: 'credentials' })}>Write credentials</Button>}>
          Nothing can be done at this site before it is written.
        </Note>
      )}
      <Tabs
        label="Parts of the site"
        shown={search.tab ?? 'overview'}
        onShow={(tab) => change({ tab: tab === 'overview' ? undefined : tab, profile: undefined })}
        tabs={[
          { key: 'overview', title: 'Overview', body: () => <SiteOverview site={site} /> },
          { key: 'credentials', title: 'Credentials and check', body: () => <Credentials site={site} /> },
          { key: 'profiles', title: 'Profiles', body: () => <Profiles site={site} /> },
          { key: 'bundles', title: 'Bundles', body: () => <Bundles site={site} /> },
          { key: 'roce', title: 'RoCE table', body: () => <RoceTable site={site} /> },
          { key: 'power', title: 'Power overrides', body: () => <PowerOverrides site={site} /> },
        ]}
      />
      {asked && <Asking what={asked} site={site} onClose={() => setAsked(undefined)} />}
    </Page>
  )
}

function Asking({ what, site: shown, onClose }: { what: Asked; site: Site; onClose: () => void }) {
  // The site as it was when this was asked: what others change meanwhile neither turns the question round nor is overwritten.
  const [site] = useState(shown)
  const queries = useQueryClient()
  const navigate = useNavigate()
  const path = { site_id: site.site_id }
  const done = (text: string) => {
    void queries.invalidateQueries({ queryKey: ['sites'] })
    say(text)
  }
  const patch = (body: Schemas['SiteChangeBody']) => got(api.PATCH('/api/v1/admin/maas-sites/{site_id}', { params: { path, header: ifMatch(site) }, body }))
  if (what === 'edit') return <EditSite site={site} patch={patch} onClose={onClose} done={done} />
  if (what === 'disable') {
    const enable = site.status === 'disabled'
    return (
      <ConfirmDialog
        title={`${enable ? 'Enable' : 'Disable'} site ${site.name}`}
        does={enable ? 'Enable' : 'Disable'}
        act={() => patch({ status: enable ? 'active' : 'disabled' })}
        onDone={() => done(`Site ${site.name} is ${enable ? 'enabled' : 'disabled'}.`)}
        onClose={onClose}
      >
        {enable ? <p>New work may be done at this site again.</p> : <p>New work at this site will be refused. Work that is running finishes, and its nodes stay in service. You can enable it again at any time.</p>}
      </ConfirmDialog>
    )
  }
  return (
    <ConfirmDialog
      title={`Delete site ${site.name}`}
      does="Delete site"
      danger
      confirm={site.name}
      act={async () => {
        await got(api.DELETE('/api/v1/admin/maas-sites/{site_id}', { params: { path } }))
        await navigate({ to: '/sites' })
      }}
      onDone={() => done(`Site ${site.name} is deleted.`)}
      onClose={onClose}
    >
      <p>
        The site <strong>{site.name}</strong> is taken out of use, with its profiles, its RoCE table and its power overrides. MAAS and its machines are not touched.
      </p>
      <p>Work that is running finishes. The name can be used again. This cannot be undone: to use the same MAAS again, a new site is created.</p>
    </ConfirmDialog>
  )
}

function EditSite({ site, patch, onClose, done }: { site: Site; patch: (body: Schemas['SiteChangeBody']) => Promise<Site>; onClose: () => void; done: (text: string) => void }) {
  // What was there when the form was opened: it says what has changed.
  const [before] = useState(() => siteDraft(site))
  const send = async (draft: Draft) => {
    const body = bodyOf('SiteNewBody', draft, before) as Schemas['SiteChangeBody']
    if (Object.keys(body).length > 0) await patch(body)
    done(`Site ${site.name} is changed.`)
    onClose()
  }
  return (
    <Dialog wide title={`Edit site ${site.name}`} onClose={onClose}>
      <SiteForm exists initial={before} does="Save changes" send={send} onClose={onClose} />
    </Dialog>
  )
}
