import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState, type SyntheticEvent } from 'react'
import { api, asRefusal, got, type Schemas } from '../../api/client'
import { useMay } from '../../app/session'
import { Badge, Button, Facts, Loading, Note, State } from '../../ui/basics'
import { Dialog } from '../../ui/dialog'
import { ReasonField, TextField } from '../../ui/form'
import { ProblemNote } from '../../ui/problem'
import { say } from '../../ui/toast'
import { useTypedFor } from '../job/typed'
import { begin, plannedOf, useModes } from './decommission'
import { useBinding } from '../node/Machine'
import { Depth, ModeChoice } from './ModeChoice'
import { More } from './More'
import { destroys, modeWords, type Choices, type Mode } from './modes'

type Plan = Schemas['DecommissionPlan']

type Props = { nodeId: string; mode?: Mode; onMode: (m: Mode) => void; onClose: () => void }

/** PlanDialog shows what an operation would do to a node before it is asked for. What is begun is the plan that was seen. */
export function PlanDialog({ nodeId, mode, onMode, onClose }: Props) {
  const known = useModes()
  const [choices, setChoices] = useState<Choices>({ erase: 'quick', cleanup: 'local' })
  const node = useQuery({ queryKey: ['nodes', nodeId, 'to-turn-over'], queryFn: () => got(api.GET('/api/v1/admin/nodes/{node_id}', { params: { path: { node_id: nodeId } } })) })
  const binding = useBinding(nodeId, node.data?.onboarding_mode === 'maas')
  if (!node.data || !known) {
    return (
      <Dialog title="Turn a node over" onClose={onClose} wide>
        {node.error ? <ProblemNote error={node.error} onRetry={() => void node.refetch()} /> : <Loading what="the node" />}
      </Dialog>
    )
  }
  return (
    <Dialog title={<>Turn {node.data.hostname} over</>} onClose={onClose} wide>
      <div className="flex flex-col gap-4">
        {node.error && <ProblemNote error={node.error} onRetry={() => void node.refetch()} />}
        <p className="text-sm">
          The node is <State of="node" is={node.data.status} />
          {node.data.held_by && <> and held by {node.data.held_by}</>}. Choose what to do; nothing starts before you have seen the plan and given a reason.
        </p>
        <ModeChoice mode={mode} onMode={onMode} known={known} status={node.data.status} />
        {mode && <Depth mode={mode} choices={choices} onChoices={setChoices} />}
        {mode && <More mode={mode} choices={choices} onChoices={setChoices} siteId={binding.data?.site_id} />}
        {/* What was typed to confirm one plan does not confirm another one. */}
        {mode && <Planned key={JSON.stringify([mode, plannedOf(mode, choices)])} nodeId={nodeId} mode={mode} choices={choices} onClose={onClose} />}
      </div>
    </Dialog>
  )
}

function Planned({ nodeId, mode, choices, onClose }: { nodeId: string; mode: Mode; choices: Choices; onClose: () => void }) {
  const plan = useQuery({
    // Nobody's event makes a new plan while this one is being read: the control plane compares when it is begun.
    queryKey: ['turnover-plan', nodeId, mode, plannedOf(mode, choices)],
    queryFn: () => got(api.POST('/api/v1/admin/nodes/{node_id}/decommission/plan', { params: { path: { node_id: nodeId } }, body: { mode, ...plannedOf(mode, choices) } })),
    staleTime: Infinity,
    gcTime: 0,
    refetchOnWindowFocus: false,
    refetchOnReconnect: false,
  })
  if (!plan.data) return plan.error ? <ProblemNote error={plan.error} onRetry={() => void plan.refetch()} /> : <Loading what="the plan" />
  return (
    <>
      {plan.error && <ProblemNote error={plan.error} onRetry={() => void plan.refetch()} />}
      <PlanView plan={plan.data} />
      <Begin plan={plan.data} mode={mode} choices={choices} onClose={onClose} onStale={() => void plan.refetch()} />
    </>
  )
}

function PlanView({ plan }: { plan: Plan }) {
  return (
    <section aria-label="Plan" className="flex flex-col gap-3 border-t border-line pt-4 text-sm">
      {plan.blocks.map((b) => (
        <Note key={b.code + b.message} tone="bad" title={b.message}>
          {b.remedy && <p>{b.remedy}</p>}
          <p className="text-xs text-muted">{b.code}</p>
        </Note>
      ))}
      {plan.short_way && (
        <Note tone="warn" title={plan.short_way.why}>
          {plan.short_way.does} Choose “Continue without the agent” above.
        </Note>
      )}
      <div>
        <h3 className="font-semibold">What happens</h3>
        <ul className="mt-1 flex flex-col gap-1">
          {plan.effects.map((e) => (
            <li key={e} className="flex items-start gap-2">
              {e.includes('DESTROYS') ? <Badge tone="bad">destroys</Badge> : <span aria-hidden className="px-1 text-muted">•</span>}
              <span>{e.replace(/^DESTROYS /, '')}</span>
            </li>
          ))}
        </ul>
      </div>
      <div>
        <h3 className="font-semibold">Stages</h3>
        <ol className="mt-1 flex flex-col gap-0.5">
          {plan.stages.map((s, i) => (
            <li key={s.name} className="grid grid-cols-[1.5rem_minmax(0,1fr)] gap-x-1 sm:grid-cols-[1.5rem_12rem_minmax(0,1fr)_auto]">
              <span className="text-muted tabular-nums">{i + 1}</span>
              <span className="font-medium">{s.title}</span>
              <span className="col-start-2 text-muted sm:col-start-auto">{s.does}</span>
              <span className="col-start-2 text-xs text-muted sm:col-start-auto sm:text-right">{s.usually}</span>
            </li>
          ))}
        </ol>
      </div>
      <Facts
        of={[
          ['Then the node is', plan.ends],
          ['Usually takes', plan.usually],
          ['Profile', plan.profile ?? ''],
          ['Back in service', plan.keep_out_of_service ? 'when an operator returns it' : ''],
          ['Accepted', plan.require_hardware_match ? 'only if its hardware matches its SKU' : ''],
          ['Seen in MAAS', plan.maas_status ?? ''],
        ]}
      />
    </section>
  )
}

function Begin({ plan, mode, choices, onClose, onStale }: { plan: Plan; mode: Mode; choices: Choices; onClose: () => void; onStale: () => void }) {
  const may = useMay()
  const navigate = useNavigate()
  const queries = useQueryClient()
  const [reason, setReason] = useState('')
  const [typed, setTyped] = useTypedFor(plan.plan_hash)
  const [read, setRead] = useState(plan.plan_hash)
  const doing = useMutation({
    mutationFn: () => begin(plan.node_id, mode, choices, reason.trim(), plan.plan_hash),
    onSuccess: (d) => {
      say(d.created ? `${modeWords(mode).title}: started for ${plan.hostname}.` : `${modeWords(mode).title}: already in progress for ${plan.hostname}.`)
      for (const key of ['decommissions', 'nodes', 'fleet']) void queries.invalidateQueries({ queryKey: [key] })
      void navigate({ to: `/decommissions/${d.decommission_id}` })
    },
    onError: (error) => {
      if (asRefusal(error).problem.code === 'plan_stale') onStale()
    },
  })
  if (!may('decommission:manage')) return <p className="text-sm text-muted">You can see plans, but you may not start them.</p>
  if (plan.blocks.length > 0) {
    return (
      <div className="flex items-center justify-end gap-2 border-t border-line pt-4">
        <p className="mr-auto text-sm text-muted">Fix the problems above first.</p>
        <Button onClick={onStale}>Check again</Button>
        <Button onClick={onClose}>Keep as it is</Button>
      </div>
    )
  }
  const grave = destroys(plan.effects)
  const changed = read !== plan.plan_hash
  const agree = () => {
    setRead(plan.plan_hash)
    doing.reset()
  }
  const submit = (e: SyntheticEvent) => {
    e.preventDefault()
    doing.mutate()
  }
  return (
    <form onSubmit={submit} className="flex flex-col gap-4 border-t border-line pt-4">
      <ReasonField value={reason} onChange={setReason} hint="Kept in the audit log, the history of the node and, where there is one, the certificate." />
      {grave && <TextField label={`Type “${plan.hostname}” to confirm: this cannot be undone`} required value={typed} onChange={setTyped} />}
      {doing.error && <ProblemNote error={doing.error} />}
      {changed && (
        <Note tone="warn" title="The plan above has changed" actions={<Button onClick={agree}>I have read it</Button>}>
          The node has changed since you read the plan.
        </Note>
      )}
      <div className="flex justify-end gap-2">
        <Button onClick={onClose} disabled={doing.isPending}>
          Keep as it is
        </Button>
        <Button type="submit" look={grave ? 'danger' : 'primary'} busy={doing.isPending} disabled={changed || reason.trim() === '' || (grave && typed.trim() !== plan.hostname)}>
          {modeWords(mode).title}
        </Button>
      </div>
    </form>
  )
}
