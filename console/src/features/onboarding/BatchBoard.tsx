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
import { useProfiles, useSites } from '../job/lookups'
import { largestPage } from '../../api/readall'
import { Outdated } from '../job/Outdated'
import { StageLegend } from '../job/StageBar'
import { Who } from '../job/Who'
import { useStages, type Onboarding, type OnboardingBatch } from './onboarding'

const keyOf = (o: Onboarding) => o.onboarding_id
const about = (payload: Record<string, string>) => payload.onboarding_id ?? ''
const pathOf = (key: string) => `/onboardings/${key}`

/** BatchBoard shows a batch while it happens: one row per machine, changed by events as they come. */
export default function BatchBoard() {
  const batchId = useParam('batchId')
  const batch = useQuery({ queryKey: ['onboarding-batches', batchId], queryFn: () => got(api.GET('/api/v1/admin/onboarding-batches/{batch_id}', { params: { path: { batch_id: batchId } } })) })
  const back = <TextLink to="/onboardings">Onboarding</TextLink>
  const problem = <Outdated of={batch} />
  if (!batch.data) return <Page title="Batch" back={back}>{batch.error ? problem : <Loading what="the batch" />}</Page>
  // The board follows one batch: another one is another board.
  return <Board key={batchId} batch={batch.data} problem={problem} />
}

function Board({ batch, problem }: { batch: OnboardingBatch; problem: ReactNode }) {
  const [search, setSearch] = useSearchState()
  const stages = useStages(batch.site_id)
  const read = useCallback((cursor: string | undefined) => got(api.GET('/api/v1/admin/onboardings', { params: { query: { batch_id: batch.batch_id, cursor, page_size: largestPage } } })), [batch.batch_id])
  const { store, query } = useBoard<Onboarding>({ queryKey: ['onboardings', 'board', batch.batch_id], batchId: batch.batch_id, events: 'node.onboarding.', read, keyOf, about, stages })
  const status = search.status ?? ''
  const parkedFirst = search.parked === 'first'
  useEffect(() => store.show({ status, parkedFirst }), [store, status, parkedFirst])
  return (
    <Page title={<Title batch={batch} />} back={<TextLink to="/onboardings">Onboarding</TextLink>} lead={<>asked for <When at={batch.requested_at} /></>} actions={<BatchActions batch={batch} />}>
      {problem}
      <BatchNotes batch={batch} onShowParked={() => setSearch({ status: 'failed' })} />
      <BatchHeader store={store} stages={stages} total={batch.total} status={status} onStatus={(s) => setSearch({ status: s })} />
      <div className="flex flex-wrap items-center justify-between gap-3">
        <CheckField label="Parked on top" value={parkedFirst} onChange={(on) => setSearch({ parked: on ? 'first' : '' })} />
        <StageLegend />
      </div>
      <BoardReading of={query} />
      {query.isPending ? (
        <Loading what="the machines" />
      ) : (
        <JobBoard store={store} stages={stages} label="Machines of the batch" pathOf={pathOf} height={batch.total > 15 ? '65vh' : undefined} empty={<Empty title="No machine of this batch is so" action={<Button onClick={() => setSearch({ status: '' })}>Show all</Button>} />} />
      )}
      <BatchFacts batch={batch} />
    </Page>
  )
}

function Title({ batch }: { batch: OnboardingBatch }) {
  return (
    <>
      Batch of {batch.total} {batch.total === 1 ? 'machine' : 'machines'} <Badge tone={batchTone(batch.state, batch.failed)}>{batch.state}</Badge>
    </>
  )
}

function BatchNotes({ batch, onShowParked }: { batch: OnboardingBatch; onShowParked: () => void }) {
  return (
    <>
      {batch.paused_at && batch.state !== 'settled' && (
        <Note tone="warn" title="Paused: no further machine is begun">
          Since <When at={batch.paused_at} />. Those that are running go on.
        </Note>
      )}
      {batch.state === 'settled' && batch.failed > 0 && (
        <Note tone="bad" title={`${batch.failed} of ${batch.total} ${batch.failed === 1 ? 'waits' : 'wait'} for you`} actions={<Button onClick={onShowParked}>Show them</Button>}>
          Everything else has ended. Each of them says what to do.
        </Note>
      )}
      {batch.state === 'settled' && batch.failed === 0 && batch.succeeded === batch.total && <Note tone="ok" title={`All ${batch.total} are nodes now`} actions={<TextLink to="/nodes">To the nodes</TextLink>} />}
    </>
  )
}

type Step = 'pause' | 'resume' | 'cancel'

const stepWords: Record<Step, { does: string; done: string; text: string }> = {
  pause: { does: 'Pause', done: 'The batch is paused.', text: 'No further machine is begun. Those that are running go on.' },
  resume: { does: 'Resume', done: 'The batch goes on.', text: 'Machines that wait are begun again, as many at once as the profile and the site allow.' },
  cancel: { does: 'Cancel the batch', done: 'The batch is being cancelled.', text: 'Machines that have not begun are cancelled at once. Those that are running undo what can be undone: a machine that is not deployed yet is released, the node of one that is deployed is quarantined. Parked ones stay as they are.' },
}

function BatchActions({ batch }: { batch: OnboardingBatch }) {
  const may = useMay()
  const queries = useQueryClient()
  const [step, setStep] = useState<Step>()
  const over = batch.state === 'settled' || batch.state === 'cancelled'
  // Who is asked why goes on being asked: the control plane says that it is over.
  if (!may('onboarding:manage') || (over && !step)) return null
  const take = (s: Step, reason: string) => {
    const asked = { params: { path: { batch_id: batch.batch_id } }, body: { reason } }
    if (s === 'pause') return got(api.POST('/api/v1/admin/onboarding-batches/{batch_id}/pause', asked))
    if (s === 'resume') return got(api.POST('/api/v1/admin/onboarding-batches/{batch_id}/resume', asked))
    return got(api.POST('/api/v1/admin/onboarding-batches/{batch_id}/cancel', asked))
  }
  const done = (s: Step) => {
    say(stepWords[s].done)
    void queries.invalidateQueries({ queryKey: ['onboarding-batches'] })
    void queries.invalidateQueries({ queryKey: ['onboardings'] })
  }
  return (
    <>
      {over ? null : batch.paused_at ? (
        <Button look="primary" onClick={() => setStep('resume')}>
          Resume …
        </Button>
      ) : (
        <Button onClick={() => setStep('pause')}>Pause …</Button>
      )}
      {!over && <Button onClick={() => setStep('cancel')}>Cancel …</Button>}
      {step && (
        <ReasonDialog title={`${stepWords[step].does}: ${batch.total} machines`} does={stepWords[step].does} danger={step === 'cancel'} act={(reason) => take(step, reason)} onDone={() => done(step)} onClose={() => setStep(undefined)}>
          <p>{stepWords[step].text}</p>
        </ReasonDialog>
      )}
    </>
  )
}

function BatchFacts({ batch }: { batch: OnboardingBatch }) {
  const { sites } = useSites()
  const { profiles } = useProfiles(batch.site_id)
  return (
    <Card title="About this batch">
      <Facts
        of={[
          ['Site', <TextLink key="site" to={`/sites/${batch.site_id}`}>{sites.find((s) => s.site_id === batch.site_id)?.name ?? batch.site_id}</TextLink>],
          ['Profile', profiles.find((p) => p.profile_id === batch.profile_id)?.name ?? batch.profile_id],
          ['SKU', batch.sku_id],
          ['Asked for by', <Who key="who" id={batch.requested_by} />],
          ['Asked for', <When key="at" at={batch.requested_at} exactly />],
          ['Id', <span key="id" className="font-mono text-xs">{batch.batch_id}</span>],
        ]}
      />
    </Card>
  )
}
