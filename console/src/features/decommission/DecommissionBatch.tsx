import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useCallback, useEffect, useState, type ReactNode } from 'react'
import { api, got } from '../../api/client'
import { useParam, useSearchState } from '../../app/location'
import { useMay } from '../../app/session'
import { Badge, Button, Card, Empty, Facts, Loading, Note, Page, TextLink } from '../../ui/basics'
import { ReasonDialog } from '../../ui/dialog'
import { CheckField } from '../../ui/form'
import { When } from '../../ui/time'
import { say } from '../../ui/toast'
import { batchTone } from '../job/batchtone'
import { BatchHeader } from '../job/BatchHeader'
import { useBoard } from '../job/board'
import { BoardReading, JobBoard } from '../job/JobBoard'
import { useSites } from '../job/lookups'
import { largestPage } from '../../api/readall'
import { Outdated } from '../job/Outdated'
import { StageLegend } from '../job/StageBar'
import { Who } from '../job/Who'
import { useStages, type Decommission, type DecommissionBatch } from './decommission'
import { modeWords } from './modes'
import { asWords } from './selector'

const keyOf = (d: Decommission) => d.decommission_id
const about = (payload: Record<string, string>) => payload.decommission_id ?? ''
const pathOf = (key: string) => `/decommissions/${key}`

/** DecommissionBatchBoard shows a batch while it happens: one row per node, changed by events as they come. */
export default function DecommissionBatchBoard() {
  const batchId = useParam('batchId')
  const batch = useQuery({ queryKey: ['decommission-batches', batchId], queryFn: () => got(api.GET('/api/v1/admin/decommission-batches/{batch_id}', { params: { path: { batch_id: batchId } } })) })
  const back = <TextLink to="/decommissions">Turnover</TextLink>
  const problem = <Outdated of={batch} />
  if (!batch.data) return <Page title="Batch" back={back}>{batch.error ? problem : <Loading what="the batch" />}</Page>
  return <Board key={batchId} batch={batch.data} problem={problem} />
}

function Board({ batch, problem }: { batch: DecommissionBatch; problem: ReactNode }) {
  const [search, setSearch] = useSearchState()
  const stages = useStages(batch.mode, batch.selector.site_id)
  const read = useCallback((cursor: string | undefined) => got(api.GET('/api/v1/admin/decommissions', { params: { query: { batch_id: batch.batch_id, cursor, page_size: largestPage } } })), [batch.batch_id])
  const { store, query } = useBoard<Decommission>({ queryKey: ['decommissions', 'board', batch.batch_id], batchId: batch.batch_id, events: 'node.decommission.', read, keyOf, about, stages })
  const status = search.status ?? ''
  const parkedFirst = search.parked === 'first'
  useEffect(() => store.show({ status, parkedFirst }), [store, status, parkedFirst])
  return (
    <Page title={<>{modeWords(batch.mode).title}: {batch.total} {batch.total === 1 ? 'node' : 'nodes'} <Badge tone={batchTone(batch.state, batch.failed)}>{batch.state}</Badge></>} back={<TextLink to="/decommissions">Turnover</TextLink>} lead={batch.reason} actions={<BatchActions batch={batch} />}>
      {problem}
      {batch.state === 'halted' && <Note tone="bad" title={`Halted: more than ${batch.max_failures} failed or were cancelled`}>No further node is begun until you resume it. Look at those that failed first.</Note>}
      {batch.state === 'settled' && batch.failed > 0 && (
        <Note tone="bad" title={`${batch.failed} of ${batch.total} ${batch.failed === 1 ? 'waits' : 'wait'} for you`} actions={<Button onClick={() => setSearch({ status: 'failed' })}>Show them</Button>}>
          Everything else has ended. Each of them says what to do.
        </Note>
      )}
      <BatchHeader store={store} stages={stages} total={batch.total} status={status} onStatus={(s) => setSearch({ status: s })} />
      <div className="flex flex-wrap items-center justify-between gap-3">
        <CheckField label="Parked on top" value={parkedFirst} onChange={(on) => setSearch({ parked: on ? 'first' : '' })} />
        <StageLegend />
      </div>
      <BoardReading of={query} />
      {query.isPending ? (
        <Loading what="the nodes" />
      ) : (
        <JobBoard store={store} stages={stages} label="Nodes of the batch" pathOf={pathOf} height={batch.total > 15 ? '65vh' : undefined} empty={<Empty title="No node of this batch is so" action={<Button onClick={() => setSearch({ status: '' })}>Show all</Button>} />} />
      )}
      <About batch={batch} />
    </Page>
  )
}

function BatchActions({ batch }: { batch: DecommissionBatch }) {
  const may = useMay()
  const queries = useQueryClient()
  const [step, setStep] = useState<'resume' | 'cancel'>()
  const over = batch.state === 'settled' || batch.state === 'cancelled'
  // Who is asked why goes on being asked: the control plane says that it is over.
  if (!may('decommission:manage') || (over && !step)) return null
  const take = (reason: string) => {
    const asked = { params: { path: { batch_id: batch.batch_id } }, body: { reason } }
    return step === 'resume' ? got(api.POST('/api/v1/admin/decommission-batches/{batch_id}/resume', asked)) : got(api.POST('/api/v1/admin/decommission-batches/{batch_id}/cancel', asked))
  }
  const done = () => {
    say(step === 'resume' ? 'The batch goes on.' : 'The batch is being cancelled.')
    void queries.invalidateQueries({ queryKey: ['decommission-batches'] })
    void queries.invalidateQueries({ queryKey: ['decommissions'] })
  }
  return (
    <>
      {batch.state === 'halted' && (
        <Button look="primary" onClick={() => setStep('resume')}>
          Resume …
        </Button>
      )}
      {!over && <Button onClick={() => setStep('cancel')}>Cancel …</Button>}
      {step && (
        <ReasonDialog title={step === 'resume' ? 'Go on in spite of what failed' : 'Cancel the batch'} does={step === 'resume' ? 'Resume' : 'Cancel the batch'} danger={step === 'cancel'} act={take} onDone={done} onClose={() => setStep(undefined)}>
          <p>{step === 'resume' ? 'The batch goes on in spite of what has failed so far, and halts again when more than that fails.' : 'Nodes that have not begun are cancelled at once. Those that are running or parked are let go of where that is possible. What was destroyed is not brought back.'}</p>
        </ReasonDialog>
      )}
    </>
  )
}

function About({ batch }: { batch: DecommissionBatch }) {
  const { sites } = useSites()
  return (
    <Card title="About this batch">
      <Facts
        of={[
          ['Which nodes', asWords(batch.selector, (id) => sites.find((s) => s.site_id === id)?.name ?? id)],
          ['At once', batch.max_parallel],
          ['May fail', batch.max_failures],
          ['Why', batch.reason],
          ['Asked for by', <Who key="who" id={batch.requested_by} />],
          ['Asked for', <When key="at" at={batch.requested_at} exactly />],
          ['Id', <span key="id" className="font-mono text-xs">{batch.batch_id}</span>],
        ]}
      />
    </Card>
  )
}
