import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useState, useSyncExternalStore } from 'react'
import { useMay } from '../../app/session'
import { ActForm } from '../../ui/actform'
import { Badge, Button, Loading, Note } from '../../ui/basics'
import { Dialog } from '../../ui/dialog'
import { ReasonField } from '../../ui/form'
import { ProblemNote } from '../../ui/problem'
import { say } from '../../ui/toast'
import { alike, type Alike } from './alike'
import type { BoardStore } from './boardstore'
import { actionTitle, idOf, type Acted, type ActionName, type Job, type JobDetail, type Kind, type Stage } from './job'
import { safety } from './RecoveryActions'

/** How jobs of a kind are recovered. */
export type Recovery = {
  recoverMany: (jobs: Job[], action: ActionName, reason: string) => Promise<Acted>
  explain: (id: string) => Promise<JobDetail['explanation']>
}

type Props = Recovery & { kind: Kind; store: BoardStore<Job>; stages: Stage[] }

const several = (jobs: Job[]) => alike(jobs).filter((g) => g.jobs.length > 1)

// Changes when other groups, or as many of others, are to be shown.
const outline = (jobs: Job[]) => several(jobs).map((g) => `${g.key} ${g.jobs.length}`).join('\n')

/** RecoverMany offers what is recommended for all jobs of a batch that are parked for the same reason, with one reason. */
export function RecoverMany({ kind, store, stages, ...recovery }: Props) {
  const may = useMay()
  useSyncExternalStore(store.watchAll, () => outline(store.all()))
  const [asked, setAsked] = useState<Alike>()
  const groups = may(`${kind.noun}:manage`) ? several(store.all()) : []
  const title = (stage: string) => stages.find((s) => s.name === stage)?.title ?? stage
  return (
    <>
      {groups.map((g) => (
        <Note
          key={g.key}
          tone="warn"
          title={`${g.jobs.length} are parked for the same reason`}
          actions={
            <Button onClick={() => setAsked(g)}>
              {actionTitle(g.action)} for these {g.jobs.length} …
            </Button>
          }
        >
          {title(g.stage)}: {g.jobs[0]?.failure?.error_message} <span className="text-xs text-muted">{g.code}</span>
        </Note>
      ))}
      {asked && <Together kind={kind} group={asked} {...recovery} onClose={() => setAsked(undefined)} />}
    </>
  )
}

function Together({ kind, group, recoverMany, explain, onClose }: Recovery & { kind: Kind; group: Alike; onClose: () => void }) {
  const { action, jobs } = group
  const queries = useQueryClient()
  const [reason, setReason] = useState('')
  const first = jobs[0] ? idOf(jobs[0]) : ''
  const example = useQuery({ queryKey: [`${kind.noun}s`, 'together', first], queryFn: () => explain(first), gcTime: 0 })
  const offer = example.data?.actions.find((a) => a.action === action && a.legal)
  const asking = useMutation({
    mutationFn: () => recoverMany(jobs, action, reason.trim()),
    onSuccess: ({ refused }) => {
      void queries.invalidateQueries({ queryKey: [`${kind.noun}s`] })
      if (refused > 0) return
      say(`${actionTitle(action)}: requested for ${jobs.length}.`)
      onClose()
    },
  })
  if (asking.data && asking.data.refused > 0) return <NotAll of={asking.data} onClose={onClose} />
  return (
    <Dialog title={`${actionTitle(action)}: ${jobs.length} ${kind.unit.toLowerCase()}s`} onClose={onClose}>
      <ActForm doing={asking} does={`${actionTitle(action)} for ${jobs.length}`} disabled={!offer || offer.safety === 'destroys_data' || reason.trim() === ''} onClose={onClose}>
        {example.error && <ProblemNote error={example.error} onRetry={() => void example.refetch()} />}
        {example.isPending && <Loading what="what the action does" />}
        {offer && (
          <div className="flex flex-col gap-2 text-sm">
            <p>For each of them: {offer.does}</p>
            {offer.safety !== 'safe' && (
              <p>
                <Badge tone={safety[offer.safety].tone}>{safety[offer.safety].text}</Badge>
              </p>
            )}
          </div>
        )}
        {example.data && !offer && <Note tone="warn" title="It is no longer possible">Some of these jobs have changed in the meantime. Close this dialog and check them again.</Note>}
        <ul aria-label="Affected" className="flex max-h-40 flex-wrap gap-x-3 gap-y-1 overflow-auto text-sm text-muted">
          {jobs.map((j) => (
            <li key={idOf(j)}>{j.hostname}</li>
          ))}
        </ul>
        <ReasonField value={reason} onChange={setReason} />
      </ActForm>
    </Dialog>
  )
}

function NotAll({ of, onClose }: { of: Acted; onClose: () => void }) {
  return (
    <Dialog title={`${of.done} of ${of.jobs.length} were requested`} onClose={onClose}>
      <div className="flex flex-col gap-4">
        <Note tone="warn" title="The others were refused" />
        <ul className="flex max-h-80 flex-col gap-1 overflow-auto text-sm">
          {of.jobs.filter((j) => j.refusal).map((j) => (
            <li key={j.job_id}>
              <span className="font-medium">{j.hostname ?? j.job_id}</span>: {j.refusal?.message} <span className="text-muted">{j.refusal?.remedy}</span>
            </li>
          ))}
        </ul>
        <div className="flex justify-end">
          <Button onClick={onClose}>Close</Button>
        </div>
      </div>
    </Dialog>
  )
}
