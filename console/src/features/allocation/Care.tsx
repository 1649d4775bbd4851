import { useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api, got } from '../../api/client'
import { Button, Note } from '../../ui/basics'
import { AskDialog, ReasonDialog } from '../../ui/dialog'
import { When } from '../../ui/time'
import { say } from '../../ui/toast'
import { announced, called, mayAgree, mayDecline, type Allocation } from './allocation'

/** Care says that the node of an allocation is being repaired, or what is announced for it, and takes the answer of its tenant. */
export function Care({ allocation: a, answers }: { allocation: Allocation; answers: boolean }) {
  const queries = useQueryClient()
  const [asked, setAsked] = useState<'agree' | 'now' | 'decline'>()
  const m = a.maintenance
  const stop = () => setAsked(undefined)
  const path = { project_id: a.project_id, maintenance_id: m?.maintenance_id ?? '' }
  const answered = () => {
    say('The operators see your answer.')
    void queries.invalidateQueries({ queryKey: ['allocations'] })
  }
  return (
    <>
      {a.repairing && (
        <Note tone="warn" title={`The node is being repaired: ${a.repairing.reason}`}>
          Since <When at={a.repairing.since} />. You keep it, and can give it back all the same. Terminals are refused until it is done.
        </Note>
      )}
      {m && (
        <Note tone={m.kind === 'release' ? 'warn' : undefined} title={`Maintenance: ${m.reason}`}>
          <p>
            {announced(m)} <When at={m.kind === 'release' ? m.due_at : m.not_before} />
            {m.kind !== 'release' && (
              <>
                {' '}
                to <When at={m.due_at} />
              </>
            )}
            .
          </p>
          {answers && (mayAgree(m) || mayDecline(m)) && (
            <div className="mt-2 flex flex-wrap gap-2">
              {mayAgree(m) && m.status !== 'consented' && <Button onClick={() => setAsked('agree')}>Agree …</Button>}
              {mayAgree(m) && <Button onClick={() => setAsked('now')}>{m.kind === 'release' ? 'Release it now …' : 'Agree to begin now …'}</Button>}
              {mayDecline(m) && <Button onClick={() => setAsked('decline')}>Decline …</Button>}
            </div>
          )}
        </Note>
      )}
      {m && (asked === 'agree' || asked === 'now') && <Consent allocation={a} now={asked === 'now'} onDone={answered} onClose={stop} />}
      {m && asked === 'decline' && (
        <ReasonDialog title="Decline the maintenance" does="Decline" act={(reason) => got(api.POST('/api/v1/projects/{project_id}/maintenances/{maintenance_id}/decline', { params: { path }, body: { reason } }))} onDone={answered} onClose={stop}>
          <p>Nothing happens without your consent. The operators see your reason. You can agree later.</p>
        </ReasonDialog>
      )}
    </>
  )
}

function consentWords(now: boolean, ends: boolean) {
  if (now) return 'It may begin immediately, before the announced time.'
  return ends ? 'The allocation ends at the time that was announced, and not before.' : 'It may be done in the window that was announced.'
}

function Consent({ allocation: a, now, onDone, onClose }: { allocation: Allocation; now: boolean; onDone: () => void; onClose: () => void }) {
  const path = { project_id: a.project_id, maintenance_id: a.maintenance?.maintenance_id ?? '' }
  const act = () => got(api.POST('/api/v1/projects/{project_id}/maintenances/{maintenance_id}/consent', { params: { path }, body: { now } }))
  if (now && a.maintenance?.kind === 'release') {
    return (
      <AskDialog title={`Release ${called(a)} now`} does="Release now" danger confirm={called(a)} act={act} onDone={onDone} onClose={onClose}>
        <p>This destroys all your data on {a.hostname} and cannot be undone. Charging stops now.</p>
      </AskDialog>
    )
  }
  return (
    <AskDialog title="Agree to the maintenance" does="Agree" act={act} onDone={onDone} onClose={onClose}>
      <p>{consentWords(now, a.maintenance?.kind === 'release')}</p>
    </AskDialog>
  )
}
