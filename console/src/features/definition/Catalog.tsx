import { useNavigate } from '@tanstack/react-router'
import { useMe } from '../../app/session'
import { Badge, Empty, LinkButton, Loading, Page, State, TextLink } from '../../ui/basics'
import { ProblemNote } from '../../ui/problem'
import { Table, type Column } from '../../ui/table'
import { entriesOf, impactTone, impactWords, riskTone, type Entry } from './definition'
import { useCatalog } from './reading'

const pageOf = (e: Entry) => `/operations/catalog/${e.newest.definition_id}`

const columns: Column<Entry>[] = [
  { key: 'title', title: 'What it does', width: 'minmax(16rem,2fr)', cell: (e) => <TextLink to={pageOf(e)}>{e.newest.title}</TextLink> },
  { key: 'type', title: 'Type', width: 'minmax(11rem,1fr)', cell: (e) => <span className="font-mono text-xs">{e.newest.operation_type}</span> },
  { key: 'risk', title: 'Risk', width: '6rem', cell: (e) => <Badge tone={riskTone[e.newest.risk]}>{e.newest.risk}</Badge> },
  { key: 'impact', title: 'On the node', width: '9rem', cell: (e) => <Badge tone={impactTone[e.newest.impact]}>{impactWords[e.newest.impact]}</Badge> },
  { key: 'steps', title: 'Steps', width: '5rem', align: 'right', cell: (e) => e.newest.steps.length },
  { key: 'versions', title: 'Versions', width: 'minmax(6rem,0.6fr)', cell: (e) => e.versions.map((v) => v.version).join(', ') },
  { key: 'status', title: 'Status', width: '7rem', cell: (e) => <State of="definition" is={e.newest.status} /> },
]

/** Catalog is what can be run on nodes. */
export default function Catalog() {
  const navigate = useNavigate()
  const me = useMe()
  const catalog = useCatalog()
  const entries = entriesOf(catalog.data ?? [])
  return (
    <Page
      back={<TextLink to="/operations">Operations</TextLink>}
      title="Catalog"
      lead="What can be run on nodes: versioned work of typed steps. Nobody types commands on nodes, and an active version never changes."
      actions={<LinkButton to="/operations/policies">Policies</LinkButton>}
    >
      {catalog.error && <ProblemNote error={catalog.error} onRetry={() => void catalog.refetch()} />}
      {catalog.isPending && <Loading what="the catalog" />}
      {catalog.data && (
        <Table
          label="Catalog"
          columns={columns}
          rows={entries}
          rowKey={(e) => e.newest.operation_type}
          onOpen={(e) => void navigate({ to: pageOf(e) })}
          empty={<Empty title="Nothing can be run yet">{me.platform_permissions.includes('operation_definition:manage') ? 'Register a definition: gpuaas operation definition apply -f FILE.' : 'Administrators of the platform register what can be run.'}</Empty>}
        />
      )}
    </Page>
  )
}
