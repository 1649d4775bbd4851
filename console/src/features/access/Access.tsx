import { useSearchState } from '../../app/location'
import { useMay } from '../../app/session'
import { Page } from '../../ui/basics'
import { Tabs } from '../../ui/tabs'
import { People } from './People'
import { Tenants } from './Tenants'
import { You } from './You'

/** Access is who may do what: yourself first, then the tenants that you see, then all people. */
export default function Access() {
  const may = useMay()
  const [search, change] = useSearchState()
  const tabs = [
    { key: 'you', title: 'You', body: () => <You /> },
    { key: 'tenants', title: 'Tenants and projects', body: () => <Tenants /> },
    ...(may('user:read') ? [{ key: 'people', title: 'People', body: () => <People /> }] : []),
  ]
  return (
    <Page title="Access" lead="Who may do what. Roles on the platform hold everywhere; roles on a tenant hold in all of its projects.">
      <Tabs label="Access" tabs={tabs} shown={search.tab ?? 'you'} onShow={(tab) => change({ tab: tab === 'you' ? undefined : tab })} />
    </Page>
  )
}
