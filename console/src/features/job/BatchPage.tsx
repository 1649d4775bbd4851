import { useQueryClient } from '@tanstack/react-query'
import { useEffect, useState, type ReactNode } from 'react'
import { useSearchState } from '../../app/location'
import { useMay } from '../../app/session'
import { Badge, Button, Card, Empty, Facts, Loading, Note, Page, TextLink } from '../../ui/basics'
import { ReasonDialog } from '../../ui/dialog'
import { CheckField } from '../../ui/form'
import { Elapsed, When } from '../../ui/time'
import { say } from '../../ui/toast'
import type { Fact } from './AboutJob'
import { BatchHeader } from './BatchHeader'
import { batchTone } from './batchtone'
import { useBoard, type ReadJobs } from './board'
import type { Batch, Kind, Stage } from './job'
import { BoardReading, JobBoard } from './JobBoard'
import { RecoverMany, type Recovery } from './RecoverMany'
import { StageLegend } from './StageBar'
import { Who } from './Who'

type StepName = 'pause' | 'resume' | 'cancel'

/** A step that can be taken with a batch now, and what that means for its kind. */
type Step = { name: StepName; title: string; text: string }

type Steps = {
  /** What cancelling does to the jobs of this kind. */
  cancels: string
  take: (step: StepName, reason: string) => Promise<unknown>
}

type Props = Steps & {
  kind: Kind
  batch: Batch
  stages: Stage[]
  read: ReadJobs
  problem: ReactNode
  /** What it is, before how many it is about. */
  title: string
  lead: ReactNode
  about: Fact[]
  recovery: Recovery
  /** What only batches of its kind have to say. */
  children?: ReactNode
}

/** BatchPage shows a batch while it happens: one row per node, changed by events as they come. It follows one batch: another one is another page. */
export function BatchPage({ kind, batch, stages, read, problem, title, lead, about, recovery, cancels, take, children }: Props) {
  const [search, setSearch] = useSearchState()
  const { store, query } = useBoard(kind, batch.batch_id, stages, read)
  const status = search.status ?? ''
  const parkedFirst = search.parked === 'first'
  useEffect(() => store.show({ status, parkedFirst }), [store, status, parkedFirst])
  const unit = kind.unit.toLowerCase()
  const heading = <>{title} {batch.total} {batch.total === 1 ? unit : `${unit}s`} <Badge tone={batchTone(batch.state, batch.failed)}>{batch.state}</Badge></>
  return (
    <Page title={heading} back={<TextLink to={`/${kind.noun}s`}>{kind.title}</TextLink>} lead={lead} actions={<BatchActions kind={kind} batch={batch} cancels={cancels} take={take} />}>
      {problem}
      <Stopped kind={kind} batch={batch} />
      {children}
      {batch.state === 'settled' && batch.failed > 0 && (
        <Note tone="bad" title={`${batch.failed} of ${batch.total} ${batch.failed === 1 ? 'is' : 'are'} waiting for you`} actions={<Button onClick={() => setSearch({ status: 'failed' })}>Show them</Button>}>
          Everything else has finished. Open each one to see what to do.
        </Note>
      )}
      <RecoverMany kind={kind} store={store} stages={stages} {...recovery} />
      <BatchHeader store={store} stages={stages} total={batch.total} status={status} onStatus={(s) => setSearch({ status: s })} />
      <div className="flex flex-wrap items-center justify-between gap-3">
        <CheckField label="Show parked first" value={parkedFirst} onChange={(on) => setSearch({ parked: on ? 'first' : '' })} />
        <StageLegend />
      </div>
      <BoardReading of={query} />
      {query.isPending ? (
        <Loading what={`the ${unit}s`} />
      ) : (
        <JobBoard kind={kind} store={store} stages={stages} height={batch.total > 15 ? '65vh' : undefined} empty={<Empty title={`No ${unit} of this batch matches`} action={<Button onClick={() => setSearch({ status: '' })}>Show all</Button>} />} />
      )}
      <Card title="About this batch">
        <Facts
          of={[
            ...about,
            ['In parallel', batch.max_parallel],
            ['Failures allowed', batch.max_failures ?? 'any number'],
            ['Requested by', <Who key="who" id={batch.requested_by} />],
            ['Requested', <When key="at" at={batch.requested_at} exactly />],
            ['Id', <span key="id" className="font-mono text-xs">{batch.batch_id}</span>],
          ]}
        />
      </Card>
    </Page>
  )
}

const stepWords: Record<StepName, { button: string; does: string; done: string }> = {
  pause: { button: 'Pause …', does: 'Pause', done: 'The batch is paused.' },
  resume: { button: 'Resume …', does: 'Resume', done: 'The batch continues.' },
  cancel: { button: 'Cancel …', does: 'Cancel the batch', done: 'The batch is being cancelled.' },
}

/** Stopped says that no further job of a batch is begun, who decided so, and why. */
function Stopped({ kind, batch }: { kind: Kind; batch: Batch }) {
  const unit = kind.unit.toLowerCase()
  if (batch.state === 'halted') {
    return <Note tone="bad" title={`Halted: ${batch.pause_reason ?? 'too many failed'}`}>No further {unit} starts until you resume the batch. Check the failed ones first.</Note>
  }
  if (batch.state !== 'paused' || !batch.paused_at) return null
  return (
    <Note tone="warn" title={`Paused${batch.paused_by_name ? ` by ${batch.paused_by_name}` : ''}: no further ${unit} starts`}>
      {batch.pause_reason && <>{batch.pause_reason}. </>}For <Elapsed from={batch.paused_at} />. Those already running continue.
    </Note>
  )
}

function stepsOf(kind: Kind, batch: Batch, cancels: string): Step[] {
  const unit = kind.unit.toLowerCase()
  const cancel: Step = { name: 'cancel', title: 'Cancel the batch', text: `Those that have not started are cancelled immediately; those that are completed stay as they are. ${cancels}` }
  switch (batch.state) {
    case 'halted':
      return [{ name: 'resume', title: 'Continue despite the failures', text: 'The batch continues despite the failures so far, and halts again if more than that fail.' }, cancel]
    case 'paused':
      return [{ name: 'resume', title: 'Resume the batch', text: `Waiting ${unit}s start, as many at a time as the limits allow.` }, cancel]
    default:
      return [{ name: 'pause', title: 'Pause the batch', text: `No further ${unit} starts. Those already running continue.` }, cancel]
  }
}

function BatchActions({ kind, batch, cancels, take }: Steps & { kind: Kind; batch: Batch }) {
  const may = useMay()
  const queries = useQueryClient()
  const [asked, setAsked] = useState<Step>()
  if (!may(`${kind.noun}:manage`)) return null
  const over = batch.state === 'settled' || batch.state === 'cancelled'
  const done = (step: StepName) => {
    say(stepWords[step].done)
    void queries.invalidateQueries({ queryKey: [`${kind.noun}-batches`] })
    void queries.invalidateQueries({ queryKey: [`${kind.noun}s`] })
  }
  return (
    <>
      {!over &&
        stepsOf(kind, batch, cancels).map((s) => (
          <Button key={s.name} look={s.name === 'resume' ? 'primary' : 'plain'} onClick={() => setAsked(s)}>
            {stepWords[s.name].button}
          </Button>
        ))}
      {/* Who is asked why goes on being asked: the control plane says that it is over. */}
      {asked && (
        <ReasonDialog title={asked.title} does={stepWords[asked.name].does} danger={asked.name === 'cancel'} act={(reason) => take(asked.name, reason)} onDone={() => done(asked.name)} onClose={() => setAsked(undefined)}>
          <p>{asked.text}</p>
        </ReasonDialog>
      )}
    </>
  )
}
