import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState, type SyntheticEvent } from 'react'
import { api, got, type Schemas } from '../../api/client'
import type { operations } from '../../api/gen/schema'
import { Badge, Button, Loading, Note, State } from '../../ui/basics'
import { Dialog } from '../../ui/dialog'
import { CheckField, ReasonField, SelectField, TextField } from '../../ui/form'
import { ProblemNote } from '../../ui/problem'
import { say } from '../../ui/toast'
import { words } from '../../ui/tone'
import { useSites, useSkus } from '../job/lookups'
import { largestPage, readAll } from '../../api/readall'
import { useTypedFor } from '../job/typed'
import { confirmationOf, meantOf, nodesInWords, subjectOf, type FittingNode } from './confirmation'
import { choicesOf, installedOf, useModes } from './decommission'
import { useFitting } from './fitting'
import { Depth, ModeChoice } from './ModeChoice'
import { More } from './More'
import { mayDestroy, modeWords, type Choices, type Mode } from './modes'
import { beyondSelector, chosenFrom, mostNamed, nodeStatuses, selectorOf, type Chosen, type Selector } from './selector'

type Filter = NonNullable<operations['list-nodes']['parameters']['query']>
type Made = Schemas['DecommissionNewBatchView']

type Props = { mode?: Mode; onMode: (m: Mode) => void; onClose: () => void }

type Search = Record<string, string | undefined>

/** BulkDialog turns many nodes over: chosen by what they have in common, a few at a time, halting when too many fail. */
export function BulkDialog({ search, ...rest }: Props & { search: Search }) {
  return beyondSelector(search) ? <NamedNodes search={search} {...rest} /> : <Choosing first={chosenFrom(search)} {...rest} />
}

// Nodes that the list showed, where a selector could not say which they are.
function NamedNodes({ search, ...rest }: Props & { search: Search }) {
  const { q, status, sku, region_code, site_id, drift_state, schedulable, agent, held, tainted } = search
  const shown = useQuery({
    // Read each time that the dialog is opened, and then left alone: what was read before is another list.
    queryKey: ['named-nodes', q, status, sku, region_code, site_id, drift_state, schedulable, agent, held, tainted],
    queryFn: () =>
      readAll((cursor) =>
        got(
          api.GET('/api/v1/admin/nodes', {
            params: { query: { q, sku, region_code, site_id, statuses: status ? status.split(',') : undefined, drift_state: drift_state as Filter['drift_state'], schedulable: schedulable as Filter['schedulable'], agent: agent as Filter['agent'], held: held as Filter['held'], tainted: tainted as Filter['tainted'], cursor, page_size: largestPage } },
          }),
        ),
      ),
    staleTime: Infinity,
    gcTime: 0,
    refetchOnMount: 'always',
  })
  if (!shown.data || !shown.isFetchedAfterMount) {
    return (
      <Dialog title="Turn over many nodes" onClose={rest.onClose} wide>
        {shown.error ? <ProblemNote error={shown.error} onRetry={() => void shown.refetch()} /> : <Loading what="the nodes" />}
      </Dialog>
    )
  }
  return <Choosing first={{ ...chosenFrom({}), nodes: shown.data.rows.map((n) => n.node_id) }} {...rest} />
}

function Choosing({ first, mode, onMode, onClose }: Props & { first: Chosen }) {
  const known = useModes() ?? []
  const [made, setMade] = useState<Made>()
  const [chosen, setChosen] = useState(first)
  const selector = selectorOf(chosen)
  const fitting = useFitting(selector)
  const from = known.find((k) => k.mode === mode)?.from
  if (made) return <Outcome made={made} onClose={onClose} />
  return (
    <Dialog title="Turn over many nodes" onClose={onClose} wide>
      <div className="flex flex-col gap-4">
        <ModeChoice mode={mode} onMode={onMode} known={known} />
        <Which chosen={chosen} onChosen={setChosen} />
        {selector ? <Fitting fitting={fitting} from={from} /> : <Note title="Choose nodes">Fill in at least one field: only nodes that match all of them are included.</Note>}
        {chosen.nodes.length > mostNamed && <Note tone="bad" title={`You cannot choose ${chosen.nodes.length} nodes one by one`}>At most {mostNamed} are possible. Filter the node list further, or clear it here and choose by site, region, SKU and state.</Note>}
        {/* Nodes that could not be read again are not known to be the ones that fit now. */}
        {mode && selector && chosen.nodes.length <= mostNamed && <Ask key={mode} mode={mode} selector={selector} fitting={fitting.isError ? undefined : fitting.data} from={from} onMade={setMade} onClose={onClose} />}
      </div>
    </Dialog>
  )
}

function Which({ chosen, onChosen }: { chosen: Chosen; onChosen: (c: Chosen) => void }) {
  const { sites } = useSites()
  const { skus } = useSkus()
  const set = (patch: Partial<Chosen>) => onChosen({ ...chosen, ...patch })
  const toggle = (s: string, on: boolean) => set({ statuses: on ? [...chosen.statuses, s] : chosen.statuses.filter((t) => t !== s) })
  return (
    <fieldset className="flex flex-col gap-3 border-t border-line pt-4">
      <legend className="sr-only">Which nodes</legend>
      <p className="text-sm font-medium">Which nodes: those that match all of this</p>
      {chosen.nodes.length > 0 && (
        <p className="flex flex-wrap items-center gap-2 text-sm">
          <Badge tone="info">{chosen.nodes.length} {chosen.nodes.length === 1 ? 'node' : 'nodes'} from the list</Badge>
          <Button look="quiet" onClick={() => set({ nodes: [] })}>
            Clear the list
          </Button>
        </p>
      )}
      <div className="grid gap-3 sm:grid-cols-2">
        <TextField label="Name starts with" value={chosen.prefix} onChange={(prefix) => set({ prefix })} placeholder="c07" />
        <SelectField label="Site" value={chosen.site} onChange={(site) => set({ site })} options={[{ value: '', label: 'Any site' }, ...sites.map((s) => ({ value: s.site_id, label: s.name }))]} />
        <TextField label="Region" value={chosen.region} onChange={(region) => set({ region })} list={[...new Set(sites.map((s) => s.region_code))]} />
        <SelectField label="SKU" value={chosen.sku} onChange={(sku) => set({ sku })} options={[{ value: '', label: 'Any SKU' }, ...skus.map((s) => ({ value: s.sku_id, label: s.sku_id }))]} />
      </div>
      <div className="flex flex-wrap gap-x-4 gap-y-1" role="group" aria-label="States">
        {nodeStatuses.map((s) => (
          <CheckField key={s} label={words(s)} value={chosen.statuses.includes(s)} onChange={(on) => toggle(s, on)} />
        ))}
      </div>
    </fieldset>
  )
}

function Fitting({ fitting, from }: { fitting: ReturnType<typeof useFitting>; from?: string[] }) {
  if (fitting.error) return <ProblemNote error={fitting.error} onRetry={() => void fitting.refetch()} />
  if (!fitting.data) return <p className="text-sm text-muted">Finding matching nodes …</p>
  const can = fitting.data.filter((n) => !from || from.includes(n.status))
  const cannot = fitting.data.length - can.length
  if (fitting.data.length === 0) return <Note tone="warn" title="No node matches" />
  return (
    <details className="rounded-md border border-line px-3 py-2 text-sm">
      <summary>
        {fitting.data.length} {fitting.data.length === 1 ? 'node matches' : 'nodes match'}
        {from && cannot > 0 && <span className="text-warn">; {cannot} cannot be turned over in their current state</span>}
      </summary>
      <ul className="mt-2 flex max-h-48 flex-wrap gap-x-4 gap-y-1 overflow-auto">
        {fitting.data.slice(0, 500).map((n) => (
          <li key={n.node_id} className="flex items-center gap-1.5">
            {n.hostname} <State of="node" is={n.status} />
          </li>
        ))}
        {fitting.data.length > 500 && <li className="text-muted">and {fitting.data.length - 500} more</li>}
      </ul>
    </details>
  )
}

function Ask({ mode, selector, fitting, from, onMade, onClose }: { mode: Mode; selector: Selector; fitting?: FittingNode[]; from?: string[]; onMade: (m: Made) => void; onClose: () => void }) {
  const queries = useQueryClient()
  const navigate = useNavigate()
  const [choices, setChoices] = useState<Choices>({ erase: 'quick', cleanup: 'local' })
  const [parallel, setParallel] = useState('10')
  const [failures, setFailures] = useState('0')
  const [skip, setSkip] = useState(false)
  const [reason, setReason] = useState('')
  const meant = meantOf(fitting ?? [], from, skip)
  const [typed, setTyped] = useTypedFor(subjectOf(mode, choices, selector, meant))
  const doing = useMutation({
    mutationFn: () =>
      got(
        api.POST('/api/v1/admin/decommissions/batch', {
          body: { mode, selector, expected_node_ids: (fitting ?? []).map((n) => n.node_id), ...choicesOf(mode, choices), ...installedOf(mode, choices), max_parallel: Number(parallel), max_failures: Number(failures), skip_ineligible: skip, reason: reason.trim() },
        }),
      ),
    onSuccess: (m) => {
      for (const key of ['decommissions', 'decommission-batches', 'nodes', 'fleet']) void queries.invalidateQueries({ queryKey: [key] })
      say(`${modeWords(mode).title}: started for ${nodesInWords(m.batch.total)}.`)
      if (m.left_out.length > 0) onMade(m)
      else void navigate({ to: `/decommission-batches/${m.batch.batch_id}` })
    },
    // Whoever is refused because other nodes fit by now sees those next.
    onError: () => void queries.invalidateQueries({ queryKey: ['nodes', 'fitting'] }),
  })
  const grave = mayDestroy(mode, choices)
  const word = confirmationOf(mode, meant.length)
  const submit = (e: SyntheticEvent) => {
    e.preventDefault()
    doing.mutate()
  }
  return (
    <form onSubmit={submit} className="flex flex-col gap-4 border-t border-line pt-4">
      <Depth mode={mode} choices={choices} onChoices={setChoices} />
      <More mode={mode} choices={choices} onChoices={setChoices} siteId={selector.site_id} many />
      <div className="grid gap-3 sm:grid-cols-2">
        <TextField label="In parallel" type="number" value={parallel} onChange={setParallel} hint="How many run at the same time." error={counts(parallel, 1) ? undefined : 'must be 1 to 1000'} />
        <TextField label="Failures allowed" type="number" value={failures} onChange={setFailures} hint="If more nodes than this fail or are cancelled, no further node starts until somebody resumes the batch." error={counts(failures, 0) ? undefined : 'must be 0 to 1000'} />
      </div>
      <CheckField label="Leave out nodes that cannot be turned over now" value={skip} onChange={setSkip} hint="If this is off, nothing starts as long as there is such a node. You see which nodes were left out." />
      <ReasonField value={reason} onChange={setReason} />
      {grave && meant.length > 0 && (
        <Note tone="bad" title={`${modeWords(mode).title}: ${nodesInWords(meant.length)}. What this destroys cannot be recovered.`}>
          <div className="w-96 max-w-full pt-2">
            <TextField label={`Type “${word}” to confirm`} required value={typed} onChange={setTyped} />
          </div>
        </Note>
      )}
      {doing.error && <ProblemNote error={doing.error} />}
      <div className="flex justify-end gap-2">
        <Button onClick={onClose} disabled={doing.isPending}>
          Keep them as they are
        </Button>
        <Button type="submit" look={grave ? 'danger' : 'primary'} busy={doing.isPending} disabled={meant.length === 0 || !counts(parallel, 1) || !counts(failures, 0) || reason.trim() === '' || (grave && typed.trim() !== word)}>
          {modeWords(mode).title}
          {meant.length > 0 && ` ${nodesInWords(meant.length)}`}
        </Button>
      </div>
    </form>
  )
}

const counts = (text: string, least: number) => /^\d{1,4}$/.test(text) && Number(text) >= least && Number(text) <= 1000

function Outcome({ made, onClose }: { made: Made; onClose: () => void }) {
  const navigate = useNavigate()
  return (
    <Dialog title={`${made.batch.total} started, ${made.left_out.length} left out`} onClose={onClose} wide>
      <div className="flex flex-col gap-4">
        <Note tone="warn" title="These were left out and remain unchanged" />
        <ul className="flex max-h-80 flex-col gap-1 overflow-auto text-sm">
          {made.left_out.map((l) => (
            <li key={l.node_id}>
              <span className="font-medium">{l.hostname}</span>: {l.message} <span className="text-xs text-muted">{l.code}</span>
            </li>
          ))}
        </ul>
        <div className="flex justify-end">
          <Button look="primary" onClick={() => void navigate({ to: `/decommission-batches/${made.batch.batch_id}` })}>
            Open the batch
          </Button>
        </div>
      </div>
    </Dialog>
  )
}
