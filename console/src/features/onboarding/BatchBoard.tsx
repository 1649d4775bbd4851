import { useQuery } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { api, got } from '../../api/client'
import { largestPage } from '../../api/readall'
import { useParam } from '../../app/location'
import { Note, TextLink } from '../../ui/basics'
import { Elapsed, When } from '../../ui/time'
import { useWhere } from '../job/AboutJob'
import { Awaited } from '../job/Awaited'
import { BatchPage, type Step } from '../job/BatchPage'
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
  const machines = `${batch.total} machines`
  const steps: Step<'pause' | 'resume' | 'cancel'>[] = [
    batch.paused_at
      ? { name: 'resume', title: `Resume: ${machines}`, text: 'Machines that wait are begun again, as many at once as the profile and the site allow.' }
      : { name: 'pause', title: `Pause: ${machines}`, text: 'No further machine is begun. Those that are running go on.' },
    {
      name: 'cancel',
      title: `Cancel the batch: ${machines}`,
      text: 'Machines that have not begun are cancelled at once. Those that are running undo what can be undone: a machine that is not deployed yet is released, the node of one that is deployed is quarantined. Parked ones stay as they are.',
    },
  ]
  return (
    <BatchPage
      kind={onboarding}
      batch={batch}
      stages={useStages(batch.site_id)}
      read={(cursor) => got(api.GET('/api/v1/admin/onboardings', { params: { query: { ...path, cursor, page_size: largestPage } } }))}
      problem={problem}
      title="Batch of"
      lead={<>asked for <When at={batch.requested_at} /></>}
      about={[...useWhere(batch), ['SKU', batch.sku_id]]}
      recovery={{ recoverMany, explain }}
      steps={steps}
      take={(step, reason) => got(api.POST(`/api/v1/admin/onboarding-batches/{batch_id}/${step}`, { params: { path }, body: { reason } }))}
    >
      {batch.paused_at && batch.state !== 'settled' && (
        <Note tone="warn" title="Paused: no further machine is begun">
          For <Elapsed from={batch.paused_at} />. Those that are running go on.
        </Note>
      )}
      {batch.state === 'settled' && batch.failed === 0 && batch.succeeded === batch.total && <Note tone="ok" title={`All ${batch.total} are nodes now`} actions={<TextLink to="/nodes">To the nodes</TextLink>} />}
    </BatchPage>
  )
}
