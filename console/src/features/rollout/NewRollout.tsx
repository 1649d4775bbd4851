import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { api, got, type Schemas } from '../../api/client'
import { Button, Card, Empty, Loading, Note, Page, TextLink } from '../../ui/basics'
import { CheckField, ReasonField, SelectField, TextField } from '../../ui/form'
import { ProblemNote } from '../../ui/problem'
import { say } from '../../ui/toast'
import { useReleases } from '../agentrelease/Releases'
import { rolloutsKey, type Member } from './rollout'
import { Waves } from './Waves'

type Body = Schemas['RolloutNewBody']
type Draft = { version: string; channel: '' | 'stable' | 'candidate'; sku: string; region: string; canaries: string; wave: string; bake: string; approve: boolean; goBack: 'nobody' | 'wave' | 'all'; reason: string }

const blank: Draft = { version: '', channel: 'stable', sku: '', region: '', canaries: '', wave: '', bake: '', approve: false, goBack: 'wave', reason: '' }

const number = (typed: string) => (/^\d+$/.test(typed) ? Number(typed) : undefined)

function bodyOf(d: Draft): Body {
  return {
    version: d.version,
    target: { channel: d.channel || undefined, sku: d.sku || undefined, region: d.region || undefined },
    plan: { canaries: number(d.canaries), wave_percent: number(d.wave), bake_seconds: number(d.bake), approve: d.approve, go_back: d.goBack },
    reason: d.reason.trim(),
  }
}

/** NewRollout plans a rollout: who would be in which wave is seen before anything begins. */
export default function NewRollout() {
  const releases = useReleases()
  const given = releases.rows.filter((r) => r.status === 'available').map((r) => r.version)
  return (
    <Page back={<TextLink to="/agents">Agents</TextLink>} title="Roll a release out" lead="A few canaries of every kind come first, then waves. A node counts as done after it was watched with the version. Preview first: nothing starts until you have seen which nodes are affected.">
      {releases.error && <ProblemNote error={releases.error} onRetry={releases.retry} />}
      {releases.loading && <Loading what="releases" />}
      {!releases.loading && !releases.error && given.length === 0 && <Empty title="There is no release to give">Build, sign and upload one with the command line: gpuaas agent release build, then gpuaas agent release upload.</Empty>}
      {given.length > 0 && <Form versions={given} />}
    </Page>
  )
}

function Form({ versions }: { versions: string[] }) {
  const queries = useQueryClient()
  const navigate = useNavigate()
  const [draft, setDraft] = useState<Draft>({ ...blank, version: versions[0] ?? '' })
  const [chosen, setChosen] = useState<Member>()
  const look = useMutation({ mutationFn: async (body: Body) => ({ body, view: await got(api.POST('/api/v1/admin/agent-rollouts/preview', { body })) }) })
  const start = useMutation({
    mutationFn: (body: Body) => got(api.POST('/api/v1/admin/agent-rollouts', { body })),
    onSuccess: (made) => {
      say('The rollout has begun.')
      void queries.invalidateQueries({ queryKey: [rolloutsKey] })
      void navigate({ to: `/agents/rollouts/${made.rollout_id}` })
    },
  })
  const set = (patch: Partial<Draft>) => setDraft((d) => ({ ...d, ...patch }))
  const seen = look.data
  const current = seen && JSON.stringify(seen.body) === JSON.stringify(bodyOf(draft))
  const meant = seen?.view.nodes.filter((m) => m.wave >= 0).length ?? 0
  return (
    <>
      <Card title="What, and to whom">
        <form
          className="flex flex-col gap-4"
          onSubmit={(e) => {
            e.preventDefault()
            setChosen(undefined)
            look.mutate(bodyOf(draft))
          }}
        >
          <div className="grid items-start gap-3 sm:grid-cols-2 lg:grid-cols-5">
            <SelectField label="Release" value={draft.version} onChange={(version) => set({ version })} options={versions} />
            <SelectField label="Channel" value={draft.channel} onChange={(v) => set({ channel: v as Draft['channel'] })} options={[{ value: 'stable', label: 'stable' }, { value: 'candidate', label: 'candidate' }, { value: '', label: 'both' }]} hint="Nodes that follow none are never touched." />
            <TextField label="SKU" value={draft.sku} onChange={(sku) => set({ sku })} placeholder="any" />
            <TextField label="Region" value={draft.region} onChange={(region) => set({ region })} placeholder="any" />
            <TextField label="Canaries" type="number" value={draft.canaries} onChange={(canaries) => set({ canaries })} placeholder="5 %" />
            <TextField label="Percent in each later wave" type="number" value={draft.wave} onChange={(wave) => set({ wave })} placeholder="25" />
            <TextField label="Seconds to watch a node" type="number" value={draft.bake} onChange={(bake) => set({ bake })} placeholder="300" />
            <SelectField label="After too many failures, roll back" value={draft.goBack} onChange={(v) => set({ goBack: v as Draft['goBack'] })} options={[{ value: 'wave', label: 'nodes of the current wave' }, { value: 'all', label: 'all updated nodes' }, { value: 'nobody', label: 'only failed nodes' }]} />
            <CheckField label="Approve each wave" value={draft.approve} onChange={(approve) => set({ approve })} />
          </div>
          <ReasonField value={draft.reason} onChange={(reason) => set({ reason })} />
          {!!look.error && <ProblemNote error={look.error} />}
          <div>
            <Button type="submit" look={current ? 'plain' : 'primary'} busy={look.isPending} disabled={draft.reason.trim() === ''}>
              Preview the nodes
            </Button>
          </div>
        </form>
      </Card>
      {seen && !current && <Note tone="warn" title="What you see below is out of date">Preview again: you changed the form.</Note>}
      {seen && (
        <>
          <Waves members={seen.view.nodes} told={(wave) => nodesWords(seen.view.nodes.filter((m) => m.wave === wave).length)} chosen={chosen?.node_id} onChoose={setChosen} />
          {chosen && <Note title={chosen.hostname}>{chosen.detail || 'It is updated in this wave.'}</Note>}
          {seen.view.total > seen.view.nodes.length && <p className="text-sm text-muted">The first {seen.view.nodes.length} of {seen.view.total} nodes.</p>}
          {!!start.error && <ProblemNote error={start.error} />}
          {current && (
            <div>
              <Button look="primary" busy={start.isPending} disabled={meant === 0} onClick={() => start.mutate(seen.body)}>
                Start the rollout to {nodesWords(meant)}
              </Button>
            </div>
          )}
        </>
      )}
    </>
  )
}

const nodesWords = (n: number) => (n === 1 ? '1 node' : `${n} nodes`)
