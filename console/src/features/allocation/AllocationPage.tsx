import { useQuery } from '@tanstack/react-query'
import { lazy, Suspense, useState, type ReactNode } from 'react'
import { api, got } from '../../api/client'
import { usePages } from '../../api/pages'
import { useParam } from '../../app/location'
import { useMay, useMe } from '../../app/session'
import { Badge, Button, Card, Code, Facts, Loading, Note, Page, State, TextLink } from '../../ui/basics'
import { ProblemNote } from '../../ui/problem'
import { When } from '../../ui/time'
import { useProject } from '../access/reading'
import { mayIn } from '../access/roles'
import { PerHour, SoFar } from '../billing/AllocationCost'
import { byWhom, called, isOver, mayEnd, ssh, type Allocation } from './allocation'
import { Care } from './Care'
import { ChangeKeys } from './ChangeKeys'
import { Force } from './Force'
import { ProjectName } from './ProjectName'
import { allocationQuery } from './queries'
import { Receipts } from './Receipts'
import { Release } from './Release'
import { Repairs } from './Repairs'
import { Terms } from './Terms'

// The terminal is heavy: it comes when it is asked for.
const Screen = lazy(() => import('../terminal/Screen').then((m) => ({ default: m.Screen })))

/** AllocationPage is one allocation: how to get in, what it waits for, what happened, and its end. */
export default function AllocationPage() {
  const id = useParam('allocationId')
  const read = useQuery({ ...allocationQuery(id), refetchInterval: (q) => (q.state.data && isOver(q.state.data) ? false : 5_000) })
  if (read.isPending) return <Loading what="the allocation" />
  if (!read.data) {
    return (
      <Page title="Allocation" back={<TextLink to="/allocations">Allocations</TextLink>}>
        <ProblemNote error={read.error} onRetry={() => void read.refetch()} />
      </Page>
    )
  }
  return <Shown key={id} allocation={read.data} error={read.error} />
}

type Doing = 'working' | 'ending' | 'changing' | 'keys'

function Shown({ allocation: a, error }: { allocation: Allocation; error: unknown }) {
  const me = useMe()
  const project = useProject(a.project_id)
  const [doing, setDoing] = useState<Doing>()
  const where = { orgId: project.data?.body.org_id ?? '', projectId: a.project_id }
  const needs = a.requested_by === me.id ? 'allocation:use' : 'allocation:manage'
  const mine = mayIn(me, needs, where)
  const answers = mayIn({ ...me, platform_permissions: [] }, needs, where) // only people of the tenant answer
  const stop = () => setDoing(undefined)
  return (
    <Page
      back={<TextLink to="/allocations">Allocations</TextLink>}
      title={
        <>
          {called(a)}
          <State of="allocation" is={a.status} />
          {a.protected && <Badge tone="accent">protected</Badge>}
          {a.repairing && <Badge tone="warn">repairing</Badge>}
        </>
      }
      lead={
        <>
          {a.sku} · <ProjectName id={a.project_id} /> · <PerHour allocation={a} />
        </>
      }
      actions={
        <>
          {mine && a.status === 'active' && !a.repairing && doing !== 'working' && (
            <Button look="primary" onClick={() => setDoing('working')}>
              Terminal
            </Button>
          )}
          {mine && mayEnd(a) && <Button onClick={() => setDoing('changing')}>Change …</Button>}
          {mine && a.status === 'active' && <Button onClick={() => setDoing('keys')}>SSH keys …</Button>}
          {mine && mayEnd(a) && <Button onClick={() => setDoing('ending')}>{a.status === 'release_failed' ? 'Clean again …' : 'Release …'}</Button>}
          <Force allocation={a} />
        </>
      }
    >
      {!!error && <ProblemNote error={error} />}
      <Standing allocation={a} />
      <Care allocation={a} answers={answers} />
      {doing === 'working' && a.status === 'active' && (
        <Suspense fallback={<Loading what="the terminal" />}>
          <Screen
            label={`Terminal of ${a.username} on ${a.hostname}`}
            open={(size) => got(api.POST('/api/v1/projects/{project_id}/allocations/{allocation_id}/terminal-token', { params: { path: { project_id: a.project_id, allocation_id: a.allocation_id } }, body: size }))}
            onLeave={stop}
          />
        </Suspense>
      )}
      <div className="grid items-start gap-4 lg:grid-cols-2">
        <About allocation={a} />
        <div className="flex min-w-0 flex-col gap-4">
          {mayIn(me, 'certificate:read', where) && <Receipts allocation={a} />}
          <Repairs allocation={a} />
          <Timeline allocation={a} />
        </div>
      </div>
      {doing === 'ending' && <Release allocation={a} onClose={stop} />}
      {doing === 'keys' && <ChangeKeys allocation={a} onClose={stop} />}
      {doing === 'changing' && <Terms allocation={a} onClose={stop} />}
    </Page>
  )
}

/** Standing says what an allocation waits for, or why it came to nothing. */
function Standing({ allocation: a }: { allocation: Allocation }) {
  return (
    <>
      {a.waiting_for && <Note title={`Waits for: ${a.waiting_for}`} />}
      {a.failure_reason && (
        <Note tone="bad" title={a.failure_reason}>
          {a.remedy}
        </Note>
      )}
      {a.host_keys_changed_at && (
        <Note tone="bad" title="The node shows different SSH host keys than before, although it was not reinstalled">
          Somebody with root on it changed them, or another machine answers: <HostKeys of={a.host_keys_shown} />
        </Note>
      )}
      {a.release_failed_reason && (
        <Note tone="warn" title={`The node could not be cleaned: ${a.release_failed_reason}`}>
          Nothing is charged for it. Nobody else gets the node before it is proven clean.
        </Note>
      )}
    </>
  )
}

/** HostKeys shows by which keys ssh recognises the node. */
function HostKeys({ of }: { of: Allocation['host_keys'] }) {
  if (!of?.length) return 'unknown: ssh cannot verify that it reaches this node'
  return (
    <>
      {of.map((k) => (
        <span key={k.fingerprint} className="block break-all">
          <Code>{k.fingerprint}</Code> {k.algorithm}
        </span>
      ))}
    </>
  )
}

function About({ allocation: a }: { allocation: Allocation }) {
  const may = useMay()
  const command = ssh(a)
  const facts: [string, ReactNode][] = [
    ['Node', may('node:read') ? <TextLink key="n" to={`/nodes/${a.node_id}`}>{a.hostname}</TextLink> : a.hostname],
    ['GPUs', String(a.gpus)],
    ['Region', a.region],
    ['User on the node', <span key="u"><Code>{a.username}</Code>{a.access === 'root' && ', with sudo'}</span>],
    ...(command ? [['Log in', <Code key="s">{command}</Code>] as [string, ReactNode]] : []),
    ...(a.status === 'active' ? [['Host keys', <HostKeys key="h" of={a.host_keys} />] as [string, ReactNode]] : []),
    ['SSH keys', a.ssh_keys.length === 0 ? 'none: use the terminal' : a.ssh_keys.map((k) => k.name).join(', ')],
    ...(a.keys_changing_since ? [['Keys on the node', <span key="k">not updated since <When at={a.keys_changing_since} />{a.keys_waiting_for && `: waits for ${a.keys_waiting_for}`}</span>] as [string, ReactNode]] : []),
    ['Requested by', a.requested_by_name ?? a.requested_by],
    ['Requested', <When key="c" at={a.created_at} />],
    ['Active since', a.active_at ? <When key="a" at={a.active_at} /> : isOver(a) ? 'never' : 'not yet'],
    ...(a.release_requested_at ? [['Release requested', <When key="r" at={a.release_requested_at} />] as [string, ReactNode]] : []),
    ['Costs', <PerHour key="p" allocation={a} />],
    ...(a.active_at ? [['Cost so far', <span key="t"><SoFar allocation={a} />, before compensation for downtime</span>] as [string, ReactNode]] : []),
    ...(isOver(a) ? [] : [['Ends', a.expires_at ? <When key="e" at={a.expires_at} /> : 'never'] as [string, ReactNode]]),
    ...Object.entries(a.labels ?? {}).map(([k, v]): [string, ReactNode] => [`Label ${k}`, v]),
    ['Id', <Code key="i">{a.allocation_id}</Code>],
  ]
  return (
    <Card title="Details">
      <Facts of={facts} />
    </Card>
  )
}

function Timeline({ allocation: a }: { allocation: Allocation }) {
  const path = { project_id: a.project_id, allocation_id: a.allocation_id }
  const pages = usePages(
    ['allocations', 'timeline', a.allocation_id],
    (cursor) => got(api.GET('/api/v1/projects/{project_id}/allocations/{allocation_id}/timeline', { params: { path, query: { cursor, page_size: 100 } } })),
    { refetchInterval: isOver(a) ? undefined : 5_000 },
  )
  return (
    <Card title="History">
      {pages.error && <ProblemNote error={pages.error} onRetry={pages.retry} />}
      {pages.loading && <Loading what="what happened" />}
      <ol className="flex flex-col divide-y divide-line text-sm">
        {pages.rows.map((m) => (
          <li key={m.seq} className="flex flex-wrap gap-x-3 py-1.5">
            <span className="w-28 shrink-0 text-muted">
              <When at={m.at} />
            </span>
            <span className="min-w-0 flex-1 break-words">{m.message}</span>
            <span className="text-muted">{byWhom(m)}</span>
          </li>
        ))}
      </ol>
      {pages.hasMore && (
        <Button className="mt-2" disabled={!pages.more} onClick={pages.more}>
          Show more
        </Button>
      )}
    </Card>
  )
}
