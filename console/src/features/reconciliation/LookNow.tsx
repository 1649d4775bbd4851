import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useState, type SyntheticEvent } from 'react'
import { api, got } from '../../api/client'
import { Button, Loading, Note } from '../../ui/basics'
import { Dialog } from '../../ui/dialog'
import { CheckField, TextField } from '../../ui/form'
import { ProblemNote } from '../../ui/problem'
import { Elapsed } from '../../ui/time'
import { useRun } from './reading'
import { RunReport } from './RunReport'

/** LookNow has a site looked at now, and shows what came of it. */
export function LookNow({ site, onClose }: { site: { site_id: string; name: string }; onClose: () => void }) {
  const [dryRun, setDryRun] = useState(false)
  const [full, setFull] = useState(false)
  const [reason, setReason] = useState('')
  const queries = useQueryClient()
  const asking = useMutation({
    mutationFn: () => got(api.POST('/api/v1/admin/reconciliation/run', { body: { site_id: site.site_id, dry_run: dryRun, full, reason: reason.trim() || undefined } })),
    onSuccess: () => queries.invalidateQueries({ queryKey: ['drift'] }),
  })
  const submit = (e: SyntheticEvent) => {
    e.preventDefault()
    asking.mutate()
  }
  return (
    <Dialog title={`Check ${site.name} now`} onClose={onClose} wide={asking.data !== undefined}>
      {asking.data ? (
        <Followed runId={asking.data.run_id} onClose={onClose} />
      ) : (
        <form onSubmit={submit} className="flex flex-col gap-4">
          <p className="text-sm">Asks MAAS for the state of this site’s machines, compares it with the inventory, and takes the actions that are due. Running work on nodes is not touched.</p>
          <CheckField label="Dry run" value={dryRun} onChange={setDryRun} hint="Show what would be done, without doing it." />
          <CheckField label="Read all machines" value={full} onChange={setFull} hint="Not only what changed. Takes a minute per 1,000 machines or so." />
          <TextField label="Reason" value={reason} onChange={setReason} hint="Optional. Kept in the audit log." />
          {asking.error && <ProblemNote error={asking.error} />}
          <div className="flex justify-end gap-2">
            <Button disabled={asking.isPending} onClick={onClose}>Cancel</Button>
            <Button type="submit" look="primary" busy={asking.isPending}>
              {dryRun ? 'Start the dry run' : 'Check now'}
            </Button>
          </div>
        </form>
      )}
    </Dialog>
  )
}

function Followed({ runId, onClose }: { runId: string; onClose: () => void }) {
  const run = useRun(runId)
  return (
    <div className="flex flex-col gap-4">
      {run.error && <ProblemNote error={run.error} onRetry={() => void run.refetch()} />}
      {run.isPending && <Loading what="the run" />}
      {run.data && !run.data.ended_at && (
        <Note title={run.data.began_at ? 'Checking' : 'Waiting to start'}>
          <p>
            For <Elapsed from={run.data.requested_at} />. It continues when you close this; find it again under Runs.
          </p>
        </Note>
      )}
      {run.data?.ended_at && <RunReport run={run.data} />}
      <div className="flex justify-end">
        <Button onClick={onClose}>Close</Button>
      </div>
    </div>
  )
}
