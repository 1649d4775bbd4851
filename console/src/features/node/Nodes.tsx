import { useQuery } from '@tanstack/react-query'
import { Link, useNavigate } from '@tanstack/react-router'
import { useMemo } from 'react'
import { api, got } from '../../api/client'
import { usePages } from '../../api/pages'
import { useSearchState } from '../../app/location'
import { useMay } from '../../app/session'
import { Button, Empty, LinkButton, Loading, Page, State } from '../../ui/basics'
import { ProblemNote } from '../../ui/problem'
import { Table, type Column } from '../../ui/table'
import { When } from '../../ui/time'
import { AddNode } from './AddNode'
import { AgentState } from './AgentState'
import { askedFor, byAgent, countedBy, sortOf, totalOf, turnoverOf } from './filters'
import { NodeCards, NodeFilters } from './NodeFilters'
import { inBrief, type Node } from './scheduling'

const pageSize = 200

const columns: Column<Node>[] = [
  {
    key: 'hostname',
    title: 'Hostname',
    sortable: true,
    width: 'minmax(9rem, 1.2fr)',
    cell: (n) => (
      <Link to="/nodes/$nodeId" params={{ nodeId: n.node_id }} tabIndex={-1} className="font-medium hover:underline">
        {n.hostname}
      </Link>
    ),
  },
  { key: 'status', title: 'State', sortable: true, width: 'minmax(7.5rem, 0.8fr)', cell: (n) => <State of="node" is={n.status} /> },
  { key: 'agent', title: 'Agent', width: 'minmax(8rem, 0.8fr)', cell: (n) => <AgentState agent={n.agent} /> },
  { key: 'scheduling', title: 'Scheduling', width: 'minmax(9rem, 1.4fr)', cell: (n) => <Scheduling node={n} /> },
  { key: 'sku', title: 'SKU', sortable: true, width: 'minmax(13rem, 1.7fr)', cell: (n) => <span title={n.sku}>{n.sku}</span> },
  { key: 'region_code', title: 'Region', sortable: true, width: 'minmax(5rem, 0.6fr)', cell: (n) => n.region_code },
  { key: 'host', title: 'Host', width: 'minmax(8rem, 1fr)', cell: (n) => <span title={n.host}>{n.host}</span> },
  { key: 'last_agent_contact_at', title: 'Last contact', sortable: true, width: 'minmax(7rem, 0.8fr)', cell: (n) => <When at={n.last_agent_contact_at} /> },
  { key: 'status_changed_at', title: 'State since', sortable: true, width: 'minmax(7rem, 0.8fr)', cell: (n) => <When at={n.status_changed_at} /> },
]

function Scheduling({ node }: { node: Node }) {
  const text = inBrief(node)
  return (
    <span title={text} className={node.schedulable ? '' : 'text-muted'}>
      {text}
      {node.tainted && ' · tainted'}
    </span>
  )
}

/** counts is the nodes that a filter finds, in numbers; those of the whole fleet are read once, whoever asks. */
function counts(query: ReturnType<typeof countedBy>) {
  const narrowed = JSON.stringify(query) !== '{}' // what is not set does not count
  return { queryKey: narrowed ? ['fleet', 'summary', query] : ['fleet', 'summary'], queryFn: () => got(api.GET('/api/v1/admin/fleet', { params: { query } })) }
}

/** Nodes is the table of all nodes: the control plane filters, sorts and pages. */
export default function Nodes() {
  const [address, change] = useSearchState()
  const navigate = useNavigate()
  const may = useMay()
  const counted = useMemo(() => countedBy(address), [address])
  const asked = useMemo(() => askedFor(address), [address])
  const all = useQuery(counts({}))
  const summary = useQuery({ ...counts(counted), placeholderData: (before) => before })
  // Cards of agents count what the other filters find.
  const agents = useQuery({ ...counts({ ...counted, agent: undefined }), placeholderData: (before) => before })
  // When a node was last heard of is told by no event: it is read now and then.
  const list = usePages(['nodes', 'list', asked], (cursor) => got(api.GET('/api/v1/admin/nodes', { params: { query: { ...asked, page_size: pageSize, cursor } } })), { refetchInterval: 15_000 })
  const total = summary.data && totalOf(summary.data, address)
  const regions = [...new Set([...(all.data?.regions ?? []), ...(all.data?.sites ?? [])].map((r) => r.region_code))]
  return (
    <Page
      title="Nodes"
      lead="Every machine that is or was part of the fleet. Arrow keys move in the table, Enter opens a node."
      actions={
        <>
          {may('decommission:manage') && !!total && !byAgent(address) && (
            <LinkButton to="/decommissions" search={turnoverOf(address)}>
              Turn over these nodes
            </LinkButton>
          )}
          {may('node:manage') && (
            <Button look="primary" onClick={() => change({ add: '1' })}>
              Add a node
            </Button>
          )}
        </>
      }
    >
      {summary.data && agents.data && <NodeCards summary={summary.data} agents={agents.data.agents} address={address} change={change} />}
      <NodeFilters all={all.data} address={address} change={change} />
      {list.error && <ProblemNote error={list.error} onRetry={list.retry} />}
      {list.loading ? (
        <Loading what="nodes" />
      ) : (
        <>
          <Table
            label="Nodes"
            columns={columns}
            rows={list.rows}
            rowKey={(n) => n.node_id}
            onOpen={(n) => void navigate({ to: '/nodes/$nodeId', params: { nodeId: n.node_id } })}
            sort={sortOf(address)}
            onSort={(s) => change({ sort: s.by, order: s.order === 'desc' ? 'desc' : undefined })}
            more={list.more}
            stale={list.stale}
            height={list.rows.length > 14 ? 'max(20rem, calc(100vh - 28rem))' : undefined}
            empty={!list.error && <Nothing fleet={all.data?.total} onAdd={may('node:manage') ? () => change({ add: '1' }) : undefined} />}
          />
          <p aria-live="polite" className="text-xs text-muted">
            {list.rows.length} {total === undefined ? '' : `of ${Math.max(total, list.rows.length)} `}nodes loaded, as of {list.readAt ? <When at={new Date(list.readAt).toISOString()} /> : '–'}
            {list.hasMore && '. More load as you scroll.'}
          </p>
        </>
      )}
      {address.add && may('node:manage') && <AddNode regions={regions} onClose={() => change({ add: undefined })} />}
    </Page>
  )
}

function Nothing({ fleet, onAdd }: { fleet?: number; onAdd?: () => void }) {
  if (fleet) {
    return <Empty title="No node matches these filters">Remove a filter, or search for another part of the name.</Empty>
  }
  return (
    <Empty
      title="There are no nodes yet"
      action={
        onAdd && (
          <>
            <LinkButton look="primary" to="/onboardings/new">
              Onboard machines
            </LinkButton>
            <Button onClick={onAdd}>Add a node by hand</Button>
          </>
        )
      }
    >
      Onboarding turns machines of a site into nodes. A machine that is already installed can be added by hand.
    </Empty>
  )
}
