import { useQuery } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { api, got } from '../../api/client'
import { largestPage } from '../../api/readall'
import { useParam } from '../../app/location'
import { Note } from '../../ui/basics'
import { Awaited } from '../job/Awaited'
import { BatchPage, type Step } from '../job/BatchPage'
import { useSiteName } from '../job/lookups'
import { explain, recoverMany, turnover, useStages, type DecommissionBatch } from './decommission'
import { modeWords } from './modes'
import { asWords } from './selector'

/** DecommissionBatchBoard shows a batch while it happens: one row per node. */
export default function DecommissionBatchBoard() {
  const batchId = useParam('batchId')
  const batch = useQuery({ queryKey: ['decommission-batches', batchId], queryFn: () => got(api.GET('/api/v1/admin/decommission-batches/{batch_id}', { params: { path: { batch_id: batchId } } })) })
  return (
    <Awaited kind={turnover} title="Batch" what="the batch" of={batch}>
      {(b, problem) => <Board key={batchId} batch={b} problem={problem} />}
    </Awaited>
  )
}

const resume: Step<'resume'> = { name: 'resume', title: 'Go on in spite of what failed', text: 'The batch goes on in spite of what has failed so far, and halts again when more than that fails.' }
const cancel: Step<'cancel'> = { name: 'cancel', title: 'Cancel the batch', text: 'Nodes that have not begun are cancelled at once. Those that are running or parked are let go of where that is possible. What was destroyed is not brought back.' }

function Board({ batch, problem }: { batch: DecommissionBatch; problem: ReactNode }) {
  const path = { batch_id: batch.batch_id }
  return (
    <BatchPage
      kind={turnover}
      batch={batch}
      stages={useStages(batch.mode, batch.selector.site_id)}
      read={(cursor) => got(api.GET('/api/v1/admin/decommissions', { params: { query: { ...path, cursor, page_size: largestPage } } }))}
      problem={problem}
      title={`${modeWords(batch.mode).title}:`}
      lead={batch.reason}
      about={[
        ['Which nodes', asWords(batch.selector, useSiteName())],
        ['At once', batch.max_parallel],
        ['May fail', batch.max_failures],
        ['Why', batch.reason],
      ]}
      recovery={{ recoverMany, explain }}
      steps={batch.state === 'halted' ? [resume, cancel] : [cancel]}
      take={(step, reason) => got(api.POST(`/api/v1/admin/decommission-batches/{batch_id}/${step}`, { params: { path }, body: { reason } }))}
    >
      {batch.state === 'halted' && <Note tone="bad" title={`Halted: more than ${batch.max_failures} failed or were cancelled`}>No further node is begun until you resume it. Look at those that failed first.</Note>}
    </BatchPage>
  )
}
