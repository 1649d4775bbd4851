import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useId, useState, type SyntheticEvent } from 'react'
import { api, got, type Schemas } from '../../api/client'
import { Button, Loading, Note } from '../../ui/basics'
import { Dialog } from '../../ui/dialog'
import { ReasonField, TextField } from '../../ui/form'
import { ProblemNote } from '../../ui/problem'
import { Elapsed } from '../../ui/time'
import { choicesFor, doneWords, type Choice, type Resolution } from './findings'
import { useRun } from './reading'
import { JobLink } from './RunReport'

type Detail = Schemas['ReconciliationDriftDetailView']

/** ResolveDialog has an operator decide what becomes of a node that drifted, and shows what came of the decision. */
export function ResolveDialog({ node, first, onClose }: { node: Detail; /** What is chosen already. */ first?: Resolution; onClose: () => void }) {
  const [chosen, setChosen] = useState(first)
  const [reason, setReason] = useState('')
  const [typed, setTyped] = useState('')
  const queries = useQueryClient()
  const choices = choicesFor(node)
  const choice = choices.find((c) => c.resolution === chosen)
  const deciding = useMutation({
    mutationFn: (resolution: Resolution) => got(api.POST('/api/v1/admin/reconciliation/drift/{node_id}/resolve', { params: { path: { node_id: node.node_id } }, body: { resolution, reason: reason.trim() } })),
    onSuccess: () => queries.invalidateQueries({ predicate: (q) => ['drift', 'nodes', 'fleet', 'decommissions'].includes(String(q.queryKey[0])) }),
  })
  const submit = (e: SyntheticEvent) => {
    e.preventDefault()
    if (chosen) deciding.mutate(chosen)
  }
  if (deciding.data && chosen) {
    return (
      <Dialog title={`${choice?.title}: ${node.hostname}`} onClose={onClose}>
        <Outcome runId={deciding.data.run_id} resolution={chosen} onAgain={() => deciding.reset()} onClose={onClose} />
      </Dialog>
    )
  }
  const ready = choice && !choice.barred && reason.trim() !== '' && (!choice.destroys || typed === node.hostname)
  return (
    <Dialog title={`Resolve ${node.hostname}`} onClose={onClose}>
      <form onSubmit={submit} className="flex flex-col gap-4">
        <fieldset className="flex flex-col gap-2">
          <legend className="mb-1 text-sm font-medium">What should happen</legend>
          {choices.map((c) => (
            <Option key={c.resolution} choice={c} chosen={c.resolution === chosen} onChoose={() => setChosen(c.resolution)} />
          ))}
        </fieldset>
        <ReasonField value={reason} onChange={setReason} hint="Kept in the audit log and the history of the node, with your name." />
        {choice?.destroys && (
          <>
            <Note tone="bad" title="This cannot be undone">
              <p>This destroys the installation of {node.hostname} and all data on its disks.</p>
            </Note>
            <TextField label={`Type “${node.hostname}” to confirm`} required value={typed} onChange={setTyped} />
          </>
        )}
        {deciding.error && <ProblemNote error={deciding.error} />}
        <div className="flex justify-end gap-2">
          <Button disabled={deciding.isPending} onClick={onClose}>Keep as it is</Button>
          <Button type="submit" look={choice?.destroys ? 'danger' : 'primary'} busy={deciding.isPending} disabled={!ready}>
            {choice?.title ?? 'Choose first'}
          </Button>
        </div>
      </form>
    </Dialog>
  )
}

function Option({ choice, chosen, onChoose }: { choice: Choice; chosen: boolean; onChoose: () => void }) {
  const id = useId()
  return (
    <div className={`flex items-start gap-2 rounded-md border px-3 py-2 ${!chosen ? 'border-line' : choice.destroys ? 'border-bad bg-bad-soft' : 'border-accent bg-accent-soft'}`}>
      <input id={id} type="radio" name="resolution" checked={chosen} disabled={choice.barred !== undefined} onChange={onChoose} aria-describedby={`${id}-does`} className="mt-0.5 size-4 shrink-0 accent-(--accent)" />
      <div className="text-sm">
        <label htmlFor={id} className={`font-medium ${choice.barred ? 'text-muted' : choice.destroys ? 'text-bad' : ''}`}>
          {choice.title}
        </label>
        <p id={`${id}-does`} className={choice.barred ? 'text-muted' : ''}>
          {choice.barred ? `Not now: ${choice.barred}.` : choice.does}
        </p>
      </div>
    </div>
  )
}

function Outcome({ runId, resolution, onAgain, onClose }: { runId: string; resolution: Resolution; /** Back to the choice, with what was typed. */ onAgain: () => void; onClose: () => void }) {
  const run = useRun(runId)
  const queries = useQueryClient()
  const close = () => {
    void queries.invalidateQueries({ queryKey: ['drift'] })
    onClose()
  }
  const r = run.data
  const done = r?.outcome === 'informed'
  return (
    <div className="flex flex-col gap-4">
      {run.error && <ProblemNote error={run.error} onRetry={() => void run.refetch()} />}
      {run.isPending && <Loading what="the result" />}
      {r && !r.ended_at && (
        <Note title="Checking the machine first">
          <p>
            For <Elapsed from={r.requested_at} />. It continues when you close this.
          </p>
        </Note>
      )}
      {r?.ended_at && done && (
        <Note tone="ok" title={doneWords[resolution]}>
          {r.report.left_to_jobs.map((j) => (
            <p key={j.job}>
              Follow it: <JobLink job={j.job} />
            </p>
          ))}
        </Note>
      )}
      {r?.ended_at && !done && (
        <Note tone={r.outcome === 'refused' ? 'warn' : 'bad'} title={r.error?.message ?? 'Nothing was done, because MAAS did not provide the information needed.'}>
          <p>{r.error?.remedy ?? 'Nothing was changed. Try again when MAAS answers.'}</p>
        </Note>
      )}
      <div className="flex justify-end gap-2">
        {r?.ended_at && !done && <Button onClick={onAgain}>Decide again</Button>}
        <Button onClick={close}>Close</Button>
      </div>
    </div>
  )
}
