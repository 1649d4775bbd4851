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
  approve: { button: 'Approve …', title: 'Approve the run', does: 'Approve', said: 'The run is approved.', what: 'It begins at once.' },
  unpause: { button: 'Go on …', title: 'Let the run go on', does: 'Go on', said: 'The run goes on.', what: 'Nodes that wait are handed out again. What has failed so far does not pause it again.' },
  retry: { button: 'Resume …', title: 'Resume the run', does: 'Resume', said: 'The run is resumed.', what: 'Nodes that failed, were stopped, skipped or never reached go on, each at its failed step. Nothing that succeeded is done again, unless the definition says so.' },
  pause: { button: 'Pause …', title: 'Pause the run', does: 'Pause', said: 'The run is paused.', what: 'Nothing more is handed out. Nodes finish what they have.' },
  cancel: { button: 'Cancel …', title: 'Stop the run', does: 'Stop it', said: 'The run is being stopped.', what: 'What waits is not begun. Nodes stop between two steps, or in the middle of one that can be interrupted, and say what was done. It can be resumed later.', danger: true },
  again: { button: 'Run again …', title: 'Run the same again', does: 'Run it', said: 'A new run has begun.', what: 'A new run from the first step, of the same version with the same inputs, on the nodes that are as the request said. It is linked to this one.' },
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
      <p>{target ? `Only ${target.hostname} goes on, at that step. Steps before it that succeeded are not done again, unless the definition says so.` : a.what}</p>
    </ReasonDialog>
  )
}
