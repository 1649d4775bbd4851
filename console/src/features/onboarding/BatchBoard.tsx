import { useQuery } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { api, got } from '../../api/client'
import { largestPage } from '../../api/readall'
import { useParam } from '../../app/location'
import { Note, TextLink } from '../../ui/basics'
import { When } from '../../ui/time'
import { useWhere } from '../job/AboutJob'
import { Awaited } from '../job/Awaited'
import { BatchPage } from '../job/BatchPage'
import { explain, onboarding, recoverMany, useStages, type OnboardingBatch } from './onboarding'

/** BatchBoard shows a batch while it happens: one row per machine. */
export default function BatchBoard() {
  const batchId = useParam('batchId')
  const batch = useQuery({ queryKey: ['onboarding-batches', batchId], queryFn: () => got(api.GET('/api/v1/admin/onboarding-batches/{batch_id}', { params: { path: { batch_id: batchId } } })) })
  return (
    <Awaited kind={onboarding} title="Batch" what="the batch" of={batch}>
      {(b, problem) => <Board key={batchId} batch={b} problem={problem} />}
    </Awaited>
  )
}

function Board({ batch, problem }: { batch: OnboardingBatch; problem: ReactNode }) {
  const path = { batch_id: batch.batch_id }
  return (
    <BatchPage
      kind={onboarding}
      batch={batch}
      stages={useStages(batch.site_id)}
      read={(cursor) => got(api.GET('/api/v1/admin/onboardings', { params: { query: { ...path, cursor, page_size: largestPage } } }))}
      problem={problem}
      title="Batch of"
      lead={<>requested <When at={batch.requested_at} /></>}
      about={[...useWhere(batch), ['SKU', batch.sku_id]]}
      recovery={{ recoverMany, explain }}
      cancels="Running and parked onboardings are undone where possible: machines that are not deployed yet are released, nodes of deployed machines are quarantined."
      take={(step, reason) => got(api.POST(`/api/v1/admin/onboarding-batches/{batch_id}/${step}`, { params: { path }, body: { reason } }))}
    >
      {batch.state === 'settled' && batch.failed === 0 && batch.succeeded === batch.total && <Note tone="ok" title={`All ${batch.total} are nodes now`} actions={<TextLink to="/nodes">Go to nodes</TextLink>} />}
    </BatchPage>
  )
}
