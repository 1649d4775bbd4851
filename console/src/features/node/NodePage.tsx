import { useParam, useSearchState } from '../../app/location'
import { Badge, Button, Code, LinkButton, Loading, Page, State, TextLink } from '../../ui/basics'
import { ProblemNote } from '../../ui/problem'
import { Tabs, type Tab } from '../../ui/tabs'
import { useMay } from '../../app/session'
import { AgentState } from './AgentState'
import { NodeActions } from './NodeActions'
import { NodeCapabilities } from './NodeCapabilities'
import { NodeCertificates } from './NodeCertificates'
import { NodeFindings } from './NodeFindings'
import { NodeOverview } from './NodeOverview'
import { NodeTasks } from './NodeTasks'
import { NodeTimeline } from './NodeTimeline'
import { NamedNode, Unread } from './NoSuchNode'
import { isNodeId } from './address'
import { useNode, useNodeAt, type Detail, type Known } from './queries'
import { TimeTravel } from './TimeTravel'
import { askedAt, hourAgo } from './travel'

/** NodePage is all about one node, now or at a moment of the past. The address has its id, or its host name. */
export default function NodePage() {
  const address = useParam('nodeId')
  return isNodeId(address) ? <NodeWithId nodeId={address} /> : <NamedNode name={address} />
}

function NodeWithId({ nodeId }: { nodeId: string }) {
  const node = useNode(nodeId)
  if (node.isPending) return <Loading what="the node" />
  if (!node.data) return <Unread error={node.error} onRetry={() => void node.refetch()} />
  return <OneNode key={nodeId} node={node.data.body} etag={node.data.etag} error={node.error} />
}

function OneNode({ node, etag, error }: { node: Detail; etag: string; error: unknown }) {
  const may = useMay()
  const [address, change] = useSearchState()
  const at = askedAt(address.at)
  const past = useNodeAt(node.node_id, at)
  const then = at ? past.data?.as_of : undefined
  // Of a moment that nothing is known of, nothing is shown: today's facts are not the past.
  const shown: Known | undefined = at ? then : node
  const ofAnother = at !== undefined && past.isPlaceholderData // shown dimmed until this moment is read
  const travel = (to: string | undefined) => change({ at: to })
  const tabs = useTabs(node, shown ?? node, at, travel)
  return (
    <Page
      back={<TextLink to="/nodes">Nodes</TextLink>}
      title={
        <>
          {node.hostname}
          {shown && <Badges of={shown} />}
          {then && <Badge tone="accent">{ofAnother ? 'at another time' : 'as it was'}</Badge>}
        </>
      }
      lead={
        <>
          {shown && `${shown.sku} · region ${shown.region_code} · `}
          <Code>{node.node_id}</Code>
        </>
      }
      actions={
        !at && (
          <>
            <NodeActions node={node} etag={etag} />
            {may('terminal:open') && <LinkButton to={`/nodes/${node.node_id}/terminal`}>Terminal</LinkButton>}
            <Button onClick={() => travel(hourAgo(node.created_at))}>Time travel</Button>
          </>
        )
      }
    >
      {!!error && <ProblemNote error={error} />}
      {at && <TimeTravel node={node} at={at} known={then !== undefined} loading={past.isFetching} onTravel={travel} />}
      {at && past.error && <ProblemNote error={past.error} onRetry={() => void past.refetch()} />}
      {at && !then && past.isPending && <Loading what="the node as it was" />}
      {shown && (
        <div className={ofAnother ? 'opacity-60' : undefined} aria-busy={ofAnother || undefined}>
          <Tabs label="About this node" tabs={tabs} shown={address.tab ?? 'overview'} onShow={(tab) => change({ tab: tab === 'overview' ? undefined : tab })} />
        </div>
      )}
    </Page>
  )
}

function Badges({ of: known }: { of: Known }) {
  return (
    <>
      <State of="node" is={known.status} />
      <AgentState agent={known.agent} />
      {(known.hold_reason || known.held_by) && <Badge tone="warn">held</Badge>}
      {known.tainted && <Badge tone="warn" title="A tenant had access, or it was found unclean, since it was last proven clean.">tainted</Badge>}
    </>
  )
}

/** The past is known of the node itself; what others know about it is shown as it is now, and only then. */
function useTabs(node: Detail, shown: Known, at: string | undefined, travel: (to: string | undefined) => void): Tab[] {
  const may = useMay()
  const tabs: Tab[] = [
    { key: 'overview', title: 'Overview', body: () => <NodeOverview node={shown} past={at !== undefined} /> },
    { key: 'timeline', title: 'Timeline', body: () => <NodeTimeline nodeId={node.node_id} status={shown.status} at={at} onTravel={travel} /> },
    { key: 'capabilities', title: 'Capabilities', body: () => <NodeCapabilities node={shown} /> },
  ]
  if (at) return tabs
  tabs.push({ key: 'tasks', title: 'Tasks', body: () => <NodeTasks nodeId={node.node_id} /> })
  if (may('reconciliation:read')) tabs.push({ key: 'drift', title: 'Drift', body: () => <NodeFindings node={node} /> })
  if (may('certificate:read')) tabs.push({ key: 'certificates', title: 'Certificates', body: () => <NodeCertificates node={node} /> })
  return tabs
}
