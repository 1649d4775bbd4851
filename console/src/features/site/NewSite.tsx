import { useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { api, got, type Schemas } from '../../api/client'
import { useMay } from '../../app/session'
import { Note, Page, TextLink } from '../../ui/basics'
import { say } from '../../ui/toast'
import { bodyOf, type Draft } from './explained'
import { siteDraft } from './siteFields'
import { SiteForm } from './SiteForm'

/** NewSite tells the control plane of a MAAS; credentials come next, on the page of the site. */
export default function NewSite() {
  const navigate = useNavigate()
  const queries = useQueryClient()
  const may = useMay()
  const send = async (draft: Draft) => {
    const site = await got(api.POST('/api/v1/admin/maas-sites', { body: bodyOf('SiteNewBody', draft) as Schemas['SiteNewBody'] }))
    void queries.invalidateQueries({ queryKey: ['sites'] })
    void queries.invalidateQueries({ queryKey: ['fleet'] })
    say(`Site ${site.name} is created. Write its credentials next.`)
    await navigate({ to: '/sites/$siteId', params: { siteId: site.site_id }, search: { tab: 'credentials' } })
  }
  return (
    <Page title="New site" back={<TextLink to="/sites">Sites</TextLink>} lead="A site is one MAAS and the machines that it looks after. Creating it changes nothing in MAAS: next you write its credentials, and it is checked.">
      {may('site:manage') ? (
        <SiteForm initial={siteDraft({ pxe_vlan_vid: 0, hw_sync_http: 'pinned' })} does="Create site" send={send} onClose={() => void navigate({ to: '/sites' })} />
      ) : (
        <Note tone="warn" title="You may not create sites">
          Ask a platform administrator.
        </Note>
      )}
    </Page>
  )
}
