import { useState } from 'react'
import { usePages } from '../../api/pages'
import { useSearchState } from '../../app/location'
import { useMay } from '../../app/session'
import { Badge, Code, Empty, Facts, Loading, TextLink } from '../../ui/basics'
import { Dialog } from '../../ui/dialog'
import { SelectField } from '../../ui/form'
import { ProblemNote } from '../../ui/problem'
import { RowButton } from '../../ui/rowbutton'
import { Table, type Column } from '../../ui/table'
import { fromTo, keyOf, kinds, kindWords, manyWords, outcome, type Artifact } from './changes'
import { hasEnded, type Run } from './operation'
import { listArtifacts, listTargets, runsKey, type Where } from './queries'

type Props = { where: Where; run: Run; defined?: { id: string; title?: string }[] }

/** Changes is what the steps of a run changed on nodes, or found there: packages, files, and copies of what was replaced. */
export function Changes({ where, run, defined }: Props) {
  const [search, change] = useSearchState()
  const [opened, setOpened] = useState<Artifact>()
  const kind = kinds.find((k) => k === search.kind)
  const of = [...runsKey, 'one', run.operation_id, where.projectId]
  const refetchInterval = hasEnded(run) ? undefined : 5_000
  const targets = usePages([...of, 'targets'], (cursor) => listTargets(where, run.operation_id, cursor))
  const pages = usePages([...of, 'artifacts', search.target, kind], (cursor) => listArtifacts(where, run.operation_id, { target: search.target, kind }, cursor), { refetchInterval })
  const titleOf = (a: Artifact) => defined?.find((s) => s.id === a.step_id)?.title ?? a.step_id
  const columns: Column<Artifact>[] = [
    { key: 'node', title: 'Node', width: 'minmax(9rem,1fr)', cell: (a) => a.hostname },
    { key: 'step', title: 'Step', width: 'minmax(9rem,1fr)', cell: (a) => titleOf(a) + (a.attempt_number > 1 ? ` (attempt ${a.attempt_number})` : '') },
    { key: 'kind', title: 'What', width: '7rem', cell: (a) => kindWords[a.kind] },
    { key: 'name', title: 'Name', width: 'minmax(12rem,2fr)', cell: (a) => <span title={a.name}>{a.name}</span> },
    { key: 'outcome', title: 'Outcome', width: '7rem', cell: (a) => <Badge tone={outcome(a).tone}>{outcome(a).words}</Badge> },
    { key: 'change', title: 'Before → now', width: 'minmax(14rem,2fr)', cell: (a) => <span title={fromTo(a)}>{fromTo(a)}</span> },
    { key: 'more', title: '', width: '6rem', cell: (a) => <RowButton label={`Details of ${a.name} on ${a.hostname}`} text="Details" onClick={() => setOpened(a)} /> },
  ]
  if (pages.loading) return <Loading what="the changes" />
  return (
    <div className="flex flex-col gap-4">
      <div className="grid gap-3 sm:grid-cols-2 lg:grid-cols-4">
        <SelectField label="Node" value={search.target ?? ''} onChange={(target) => change({ target })} options={[{ value: '', label: 'all nodes' }, ...targets.rows.map((t) => ({ value: t.target_id, label: t.hostname }))]} />
        <SelectField label="What" value={kind ?? ''} onChange={(k) => change({ kind: k })} options={[{ value: '', label: 'everything' }, ...kinds.map((k) => ({ value: k, label: manyWords[k] }))]} />
      </div>
      {targets.error && <ProblemNote error={targets.error} onRetry={targets.retry} />}
      {pages.error && <ProblemNote error={pages.error} onRetry={pages.retry} />}
      {!(pages.error && pages.rows.length === 0) && (
        <Table label="Changes" columns={columns} rows={pages.rows} rowKey={keyOf} onOpen={setOpened} more={pages.more} stale={pages.stale} empty={<Nothing run={run} narrowed={!!(search.target ?? kind)} />} />
      )}
      {opened && <Details where={where} run={run} of={opened} step={titleOf(opened)} onClose={() => setOpened(undefined)} />}
    </div>
  )
}

function Nothing({ run, narrowed }: { run: Run; narrowed: boolean }) {
  if (narrowed) return <Empty title="No change matches">Choose another node or kind to see the other changes.</Empty>
  if (run.only_plan) return <Empty title="This run changes nothing">It was a dry run. What each step would change is in the details of a node.</Empty>
  if (!hasEnded(run)) return <Empty title="No change is reported yet">A node reports what its steps changed when it is done.</Empty>
  return <Empty title="No step reported a change">Steps that install packages or write files report here what they changed.</Empty>
}

function Details({ where, run, of: a, step, onClose }: { where: Where; run: Run; of: Artifact; step: string; onClose: () => void }) {
  const may = useMay()
  const isPackage = a.kind === 'package'
  const secret = !isPackage && a.role !== 'removed' && !a.digest
  const value = (text: string | undefined) => text && <Code>{text}</Code>
  return (
    <Dialog title={<span className="flex flex-wrap items-center gap-2 break-all">{a.name} <Badge tone={outcome(a).tone}>{outcome(a).words}</Badge></span>} onClose={onClose} wide>
      <div className="flex flex-col gap-4">
        <Facts
          of={[
            ['What', kindWords[a.kind]],
            ['Node', a.hostname],
            ['Step', `${step}, attempt ${a.attempt_number}`],
            [isPackage ? 'Version before' : 'Content before', value(a.before)],
            [isPackage ? 'Version now' : 'Content now', secret ? 'Not shown, because not every user of the node may read the file.' : value(a.after ?? a.digest)],
            ...(isPackage ? [] : [['Size', a.bytes === undefined ? undefined : `${a.bytes} bytes`] as [string, string | undefined]]),
          ]}
        />
        {a.kind === 'backup' && <p className="text-sm text-muted">The step replaced this file. The node keeps a copy of what was there.</p>}
        <div className="flex flex-wrap items-center justify-end gap-3">
          {may('node:read') && <TextLink to={`/nodes/${a.node_id}`}>The node</TextLink>}
          <TextLink to="." search={{ ...(where.projectId || run.project_id ? { project: run.project_id } : {}), tab: 'log', target: a.target_id, step: a.step_id }}>
            Log of the step
          </TextLink>
        </div>
      </div>
    </Dialog>
  )
}
