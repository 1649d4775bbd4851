import { useQuery } from '@tanstack/react-query'
import type { ComponentType, ReactNode } from 'react'
import { readAll } from '../../api/readall'
import { Page, State, TextLink } from '../../ui/basics'
import { Awaited } from './Awaited'
import { Diagnostics } from './Explanation'
import { batchPathOf, standingOf, whileItLasts, type JobDetail, type Kind, type LedgerEvent, type Stage } from './job'
import { Ledger } from './Ledger'
import { Standing } from './Standing'
import { Timeline } from './Timeline'

/** A job as it was read, with all of its events; problem says that reading it again failed. */
export type JobRead<T> = { of: T; events: LedgerEvent[]; problem: ReactNode }

type Reading<T> = {
  kind: Kind
  id: string
  read: () => Promise<T>
  readEvents: (cursor: string | undefined) => Promise<{ items: LedgerEvent[]; next_cursor?: string }>
  show: ComponentType<JobRead<T>>
}

/** JobReading reads a job with all of its events. */
export function JobReading<T extends JobDetail>({ kind, id, read, readEvents, show: Show }: Reading<T>) {
  const detail = useQuery({ queryKey: [`${kind.noun}s`, id], queryFn: read, refetchInterval: whileItLasts })
  const events = useQuery({ queryKey: [`${kind.noun}s`, id, 'events'], queryFn: () => readAll(readEvents) })
  return (
    <Awaited kind={kind} what={`the ${kind.job.toLowerCase()}`} of={detail} also={events}>
      {(of, problem) => <Show of={of} events={events.data?.rows ?? of.events} problem={problem} />}
    </Awaited>
  )
}

type Props = JobRead<JobDetail> & {
  kind: Kind
  stages: Stage[]
  title: string
  lead?: string
  /** What it has brought about, before everything else. */
  result?: ReactNode
  /** How it stands and what can be done. */
  children: ReactNode
  /** Facts, beside that. */
  facts: ReactNode
  evidence?: ReactNode
}

/** JobPage is everything about one job: how it stands, the way it went, and each entry that was made about it. */
export function JobPage({ kind, of, stages, events, problem, title, lead, result, children, facts, evidence }: Props) {
  const back = (
    <>
      <TextLink to={`/${kind.noun}s`}>{kind.title}</TextLink>
      {of.batch_id && <> / <TextLink to={batchPathOf(kind, of.batch_id)}>its batch</TextLink></>}
    </>
  )
  return (
    <Page title={<>{title} <State of="job" is={standingOf(of)} /></>} back={back} lead={lead}>
      {problem}
      <Standing of={of} stages={stages} />
      {result}
      <div className="grid gap-4 xl:grid-cols-[minmax(0,3fr)_minmax(0,2fr)]">
        <div className="flex min-w-0 flex-col gap-4">
          {children}
          <Timeline job={of} stages={stages} events={events} />
        </div>
        <div className="flex min-w-0 flex-col gap-4">
          {facts}
          <Diagnostics title="What was recorded when it failed" of={of.failure?.error_details} />
          <Diagnostics title="What the stages recorded" of={of.facts} />
        </div>
      </div>
      {evidence}
      <Ledger events={events} stages={stages} />
    </Page>
  )
}
