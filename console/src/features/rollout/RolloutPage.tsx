import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api, got } from '../../api/client'
import { usePages } from '../../api/pages'
import { useParam } from '../../app/location'
import { useMay } from '../../app/session'
import { Badge, Button, Card, Facts, Loading, Note, Page, TextLink } from '../../ui/basics'
import { ReasonDialog } from '../../ui/dialog'
import { ProblemNote } from '../../ui/problem'
import { span, When } from '../../ui/time'
import { say } from '../../ui/toast'
import { countWords, isOver, placeWords, rolloutsKey, toneOfOutcome, toneOfStatus, verbsOf, waveName, type Member, type Rollout, type Verb } from './rollout'
import { Waves } from './Waves'

/** RolloutPage is a release on its way: its waves as they go, why it stands still, and what can be done. */
export default function RolloutPage() {
  const id = useParam('rolloutId')
  const path = { rollout_id: id }
  const rollout = useQuery({ queryKey: [rolloutsKey, 'one', id], queryFn: () => got(api.GET('/api/v1/admin/agent-rollouts/{rollout_id}', { params: { path } })), refetchInterval: ({ state }) => (state.data && isOver(state.data) ? false : 3_000) })
  const back = <TextLink to="/agents">Agents</TextLink>
  if (rollout.data) return <Shown key={id} rollout={rollout.data} problem={rollout.error} onRetry={() => void rollout.refetch()} />
  return (
    <Page back={back} title="Rollout">
      {rollout.error ? <ProblemNote error={rollout.error} onRetry={() => void rollout.refetch()} /> : <Loading what="the rollout" />}
    </Page>
  )
}

function Shown({ rollout: r, problem, onRetry }: { rollout: Rollout; problem: unknown; onRetry: () => void }) {
  const may = useMay()
  const [asked, setAsked] = useState<Verb>()
  const [chosen, setChosen] = useState<string>()
  const nodes = usePages([rolloutsKey, 'one', r.rollout_id, 'nodes'], (cursor) => got(api.GET('/api/v1/admin/agent-rollouts/{rollout_id}/nodes', { params: { path: { rollout_id: r.rollout_id }, query: { cursor, page_size: 200 } } })), { refetchInterval: isOver(r) ? undefined : 3_000 })
  const queries = useQueryClient()
  // Whoever sees harm has no time for words: pausing takes one click, and harms nothing.
  const pause = useMutation({
    mutationFn: () => act(r.rollout_id, 'pause', 'paused in the console'),
    onSuccess: () => {
      say(about.pause.said)
      void queries.invalidateQueries({ queryKey: [rolloutsKey] })
    },
  })
  const shown = nodes.rows.find((m) => m.node_id === chosen) ?? nodes.rows.find((m) => m.outcome === 'failed')
  return (
    <Page
      back={<TextLink to="/agents">Agents</TextLink>}
      title={<>Rollout of {r.version} <Badge tone={toneOfStatus(r.status)}>{r.status}</Badge></>}
      lead={<>{placeWords(r)}, begun <When at={r.created_at} />: {countWords(r.counts)}. {r.reason}</>}
      actions={may('agent_rollout:manage') && verbsOf(r).map((v, i) => <Button key={v} look={i === 0 ? 'primary' : v === 'back' ? 'danger' : 'plain'} busy={v === 'pause' && pause.isPending} onClick={() => (v === 'pause' ? pause.mutate() : setAsked(v))}>{about[v].button}</Button>)}
    >
      {!!problem && <ProblemNote error={problem} onRetry={onRetry} />}
      {pause.error && <ProblemNote error={pause.error} />}
      {nodes.error && <ProblemNote error={nodes.error} onRetry={nodes.retry} />}
      {r.paused_because && <Note tone={r.paused_code === 'too_many_failures' ? 'bad' : 'warn'} title={r.status === 'paused' ? 'It is paused: no further node is updated' : r.status === 'returning' ? (r.paused_code === 'going_back' ? 'Nodes are getting their previous version back' : 'Updates already in progress are being finished') : 'It was ended'}>{r.paused_because}</Note>}
      {nodes.loading ? <Loading what="the nodes of the rollout" /> : <Waves members={nodes.rows} told={(wave) => countWords(r.counts, wave)} chosen={shown?.node_id} onChoose={(m) => setChosen(m.node_id)} />}
      {nodes.more && <Button onClick={nodes.more}>Show more nodes</Button>}
      <div className="grid gap-4 lg:grid-cols-2">
        {shown && <OneNode member={shown} />}
        <PlanCard rollout={r} />
      </div>
      {asked && <Ask rollout={r} verb={asked} onClose={() => setAsked(undefined)} />}
    </Page>
  )
}

function OneNode({ member: m }: { member: Member }) {
  return (
    <Card title={<TextLink to="/nodes/$nodeId" params={{ nodeId: m.node_id }}>{m.hostname}</TextLink>}>
      <Facts
        of={[
          ['Outcome', <Badge key="o" tone={toneOfOutcome(m.outcome)}>{m.outcome.replaceAll('_', ' ')}</Badge>],
          ['Why', m.detail],
          ['Wave', waveName(m.wave)],
          ['Ran before', m.from_version],
          ['Task', m.task_id && <TextLink key="t" to="/tasks/$taskId" params={{ taskId: m.task_id }}>the last one that it was given</TextLink>],
          ['Begun', m.started_at && <When key="s" at={m.started_at} exactly />],
          ['Watched until', m.bake_until && <When key="b" at={m.bake_until} exactly />],
          ['Ends at the latest', m.deadline_at && <When key="d" at={m.deadline_at} exactly />],
          ['Ended', m.finished_at && <When key="f" at={m.finished_at} exactly />],
        ]}
      />
    </Card>
  )
}

function PlanCard({ rollout: { target, plan, requested_by } }: { rollout: Rollout }) {
  const labels = Object.entries(target.labels ?? {}).map(([k, v]) => `${k}=${v}`)
  const narrowed = [target.channel && `channel ${target.channel}`, target.region && `region ${target.region}`, target.sku, target.pool && `pool ${target.pool}`, target.site_id && 'one site', ...labels].filter(Boolean)
  return (
    <Card title="Plan">
      <Facts
        of={[
          ['Nodes', narrowed.join(', ') || 'all that follow a channel'],
          ['Canaries', plan.canaries ? plan.canaries : `${plan.canary_percent} %`],
          ['Later waves', `${plan.wave_percent} % each${plan.approve ? ', each to be approved' : ''}`],
          ['At the same time', `${plan.parallel}; ${plan.max_unavailable} unavailable`],
          ['Watched for', span(plan.bake_seconds ?? 0)],
          ['Agent may use', `${plan.memory_mib} MiB, and ${plan.memory_percent} % of what it used before`],
          ['Pauses', plan.max_failures ? `after more than ${plan.max_failures} failures, or one canary` : 'at the first failure'],
          ['Then roll back', plan.go_back === 'all' ? 'all updated nodes' : plan.go_back === 'nobody' ? 'only failed nodes' : 'nodes of the current wave'],
          ['Rented nodes', plan.rented === 'update' ? 'are updated' : 'are left alone'],
          ['Requested by', requested_by],
        ]}
      />
    </Card>
  )
}

type About = { button: string; title: string; does: string; said: string; what: string; danger?: boolean }

const about: Record<Verb, About> = {
  pause: { button: 'Pause', title: 'Pause the rollout', does: 'Pause', said: 'The rollout is paused.', what: 'No further node is updated. Updates already in progress are finished.' },
  resume: { button: 'Resume …', title: 'Resume the rollout', does: 'Resume', said: 'The rollout continues.', what: 'The rollout continues. Failures so far do not pause it again; new ones do.' },
  approve: { button: 'Approve …', title: 'Approve the next wave', does: 'Approve', said: 'The next wave starts.', what: 'Updating the next wave starts.' },
  abort: { button: 'Abort …', title: 'Abort the rollout', does: 'Abort', said: 'The rollout is being ended.', what: 'Nodes not yet updated are left alone. Updates in progress are finished, and nodes keep the version that they have.' },
  back: { button: 'Roll back …', title: 'Send all nodes back', does: 'Roll back', said: 'All nodes go back.', what: 'The rollout ends. All nodes that have the version are given the one before.', danger: true },
}

async function act(of: string, verb: Verb, reason: string) {
  const params = { path: { rollout_id: of } }
  switch (verb) {
    case 'abort':
    case 'back':
      return got(api.POST('/api/v1/admin/agent-rollouts/{rollout_id}/abort', { params, body: { reason, back: verb === 'back' } }))
    case 'pause':
      return got(api.POST('/api/v1/admin/agent-rollouts/{rollout_id}/pause', { params, body: { reason } }))
    case 'resume':
      return got(api.POST('/api/v1/admin/agent-rollouts/{rollout_id}/resume', { params, body: { reason } }))
    case 'approve':
      return got(api.POST('/api/v1/admin/agent-rollouts/{rollout_id}/approve', { params, body: { reason } }))
  }
}

function Ask({ rollout, verb, onClose }: { rollout: Rollout; verb: Verb; onClose: () => void }) {
  const queries = useQueryClient()
  const a = about[verb]
  return (
    <ReasonDialog
      title={a.title}
      does={a.does}
      danger={a.danger}
      confirm={verb === 'back' ? rollout.version : undefined}
      act={(reason) => act(rollout.rollout_id, verb, reason)}
      onDone={() => {
        say(a.said)
        void queries.invalidateQueries({ queryKey: [rolloutsKey] })
      }}
      onClose={onClose}
    >
      <p>{a.what}</p>
    </ReasonDialog>
  )
}
