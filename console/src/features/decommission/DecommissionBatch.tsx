import { useQuery } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { api, got } from '../../api/client'
import { largestPage } from '../../api/readall'
import { useParam } from '../../app/location'
import { Awaited } from '../job/Awaited'
import { BatchPage } from '../job/BatchPage'
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
        ['Why', batch.reason],
      ]}
      recovery={{ recoverMany, explain }}
      cancels="Running and parked turnovers stop where that is possible. Data that is already destroyed is lost."
      take={(step, reason) => got(api.POST(`/api/v1/admin/decommission-batches/{batch_id}/${step}`, { params: { path }, body: { reason } }))}
    />
  )
}
