import { useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { useMay, useMe } from '../../app/session'
import { Button } from '../../ui/basics'
import { ReasonDialog } from '../../ui/dialog'
import { say } from '../../ui/toast'
import { allowed, type Run, type Verb } from './operation'
import { actOn, runsKey, type Where } from './queries'

type About = { button: string; title: string; does: string; said: string; what: string; danger?: boolean }

const about: Record<Verb, About> = {
  approve: { button: 'Approve …', title: 'Approve the run', does: 'Approve', said: 'The run is approved.', what: 'It starts immediately.' },
  unpause: { button: 'Continue …', title: 'Continue the run', does: 'Continue', said: 'The run continues.', what: 'Waiting nodes start again. The failures so far do not pause it again.' },
  retry: { button: 'Resume …', title: 'Resume the run', does: 'Resume', said: 'The run is resumed.', what: 'Nodes that failed, were stopped, were skipped or never started continue, each at its failed step. Steps that succeeded are not repeated unless the definition requires it.' },
  pause: { button: 'Pause …', title: 'Pause the run', does: 'Pause', said: 'The run is paused.', what: 'No further node starts. Nodes that are already running finish.' },
  cancel: { button: 'Stop …', title: 'Stop the run', does: 'Stop', said: 'The run is being stopped.', what: 'Waiting nodes do not start. Running nodes stop after their step, or during it if it can be interrupted, and report what was done. You can resume the run later.', danger: true },
  again: { button: 'Run again …', title: 'Run the same again', does: 'Run it', said: 'A new run has begun.', what: 'Starts a new run of the same version with the same inputs, on the nodes that match the request now. The new run links to this one.' },
}

/** Actions is what one may do to a run: only what its state allows and the role permits is there. */
export function Actions({ where, run }: { where: Where; run: Run }) {
  const me = useMe()
  const [asked, setAsked] = useState<Verb>()
  const verbs = allowed(me, run)
  const first = verbs.find((v) => v === 'approve' || v === 'unpause' || v === 'retry')
  return (
    <>
      {verbs.map((v) => (
        <Button key={v} look={v === first ? 'primary' : 'plain'} onClick={() => setAsked(v)}>
          {about[v].button}
        </Button>
      ))}
      {asked && <Ask where={where} run={run} verb={asked} onClose={() => setAsked(undefined)} />}
    </>
  )
}

/** Ask asks why before something is done to a run, or to one node of it. */
export function Ask({ where, run, verb, target, onClose }: { where: Where; run: Run; verb: Verb; target?: { id: string; hostname: string; from: string }; onClose: () => void }) {
  const queries = useQueryClient()
  const navigate = useNavigate()
  const may = useMay()
  const a = about[verb]
  // Operators act as such; others, as those of the project.
  const as: Where = { projectId: may('fleet_operation:run') ? where.projectId : run.project_id }
  return (
    <ReasonDialog
      title={target ? `Retry ${target.hostname} from ${target.from}` : a.title}
      does={target ? 'Retry' : a.does}
      danger={a.danger}
      act={async (reason) => {
        const now = await actOn(as, verb, run.operation_id, reason, target && [target.id])
        if (verb === 'again') void navigate({ to: `/operations/${now.operation_id}`, search: now.project_id ? { project: now.project_id } : {} })
      }}
      onDone={() => {
        say(a.said)
        void queries.invalidateQueries({ queryKey: runsKey })
      }}
      onClose={onClose}
    >
      <p>{target ? `Only ${target.hostname} continues, at that step. Earlier steps that succeeded are not repeated unless the definition requires it.` : a.what}</p>
    </ReasonDialog>
  )
}
