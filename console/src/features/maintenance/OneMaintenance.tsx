import { useQueryClient } from '@tanstack/react-query'
import { useState, type ReactNode } from 'react'
import { api, got } from '../../api/client'
import { useMay } from '../../app/session'
import { Button, Code, Facts, Note, State, TextLink } from '../../ui/basics'
import { ConfirmDialog } from '../../ui/confirm'
import { Dialog, ReasonDialog } from '../../ui/dialog'
import { When } from '../../ui/time'
import { say } from '../../ui/toast'
import { ProjectName } from '../allocation/ProjectName'
import { answered, kindWords, mayBegin, mayCancel, mayFinish, type Maintenance } from './maintenance'

type Asked = 'begin' | 'finish' | 'cancel'

/** OneMaintenance is one announcement to one tenant, and what an operator can do about it now. */
export function OneMaintenance({ maintenance: m, onClose }: { maintenance: Maintenance; onClose: () => void }) {
  const may = useMay()
  const queries = useQueryClient()
  const [asked, setAsked] = useState<Asked>()
  const operates = may('allocation:force')
  const path = { maintenance_id: m.maintenance_id }
  const common = (text: string) => ({
    onDone: () => {
      say(text)
      void queries.invalidateQueries({ queryKey: ['allocations'] })
      onClose()
    },
    onClose: () => setAsked(undefined),
  })
  if (asked === 'begin') {
    return (
      <ConfirmDialog {...common('The maintenance has begun.')} title={`Begin the maintenance of ${m.hostname}`} does="Begin" act={() => got(api.POST('/api/v1/admin/maintenances/{maintenance_id}/begin', { params: { path } }))}>
        <p>The allocation is repairing from now on: its terminals end, and its tenant is notified. Do the work, then mark it as finished.</p>
      </ConfirmDialog>
    )
  }
  if (asked === 'finish') {
    return (
      <ReasonDialog {...common('The maintenance is done.')} title={`Finish the maintenance of ${m.hostname}`} does="Finish" act={(reason) => got(api.POST('/api/v1/admin/maintenances/{maintenance_id}/finish', { params: { path }, body: { reason } }))}>
        <p>{m.kind === 'release' ? 'The node is no longer set aside for it.' : 'The tenant can use the node again.'} Say what was done: the tenant reads it.</p>
      </ReasonDialog>
    )
  }
  if (asked === 'cancel') {
    return (
      <ReasonDialog {...common('The maintenance is cancelled.')} title={`Cancel the maintenance of ${m.hostname}`} does="Cancel it" act={(reason) => got(api.POST('/api/v1/admin/maintenances/{maintenance_id}/cancel', { params: { path }, body: { reason } }))}>
        <p>Nothing is done. The tenant is told the reason.</p>
      </ReasonDialog>
    )
  }
  return (
    <Dialog title={`Maintenance of ${m.hostname}`} onClose={onClose} wide>
      <div className="flex flex-col gap-4">
        <Facts of={factsOf(m)} />
        {operates && m.kind === 'release' && mayCancel(m) && <Note title="It begins by itself">The allocation is released at its deadline{m.consent_asked && ', if its tenant agreed'}; then the node is set aside until you say that it is finished.</Note>}
        {operates && (
          <div className="flex flex-wrap justify-end gap-2">
            {mayCancel(m) && <Button onClick={() => setAsked('cancel')}>Cancel it …</Button>}
            {mayBegin(m) && (
              <Button look="primary" onClick={() => setAsked('begin')}>
                Begin …
              </Button>
            )}
            {mayFinish(m) && (
              <Button look="primary" onClick={() => setAsked('finish')}>
                Finish …
              </Button>
            )}
          </div>
        )}
        {!operates && mayCancel(m) && (
          <p className="text-sm">
            You answer on the page of the <TextLink to={`/allocations/${m.allocation_id}`}>allocation</TextLink>.
          </p>
        )}
      </div>
    </Dialog>
  )
}

function factsOf(m: Maintenance): [string, ReactNode][] {
  return [
    ['Status', <span key="s"><State of="maintenance" is={m.status} /> since <When at={m.status_changed_at} /></span>],
    ['What happens', kindWords[m.kind]],
    ['Why', m.reason],
    ['Not before', <When key="n" at={m.not_before} exactly />],
    ['By', <When key="d" at={m.due_at} exactly />],
    ['Answer', answered(m)],
    ['Project', <ProjectName key="p" id={m.project_id} />],
    ['Allocation', <TextLink key="a" to={`/allocations/${m.allocation_id}`}>{m.hostname}</TextLink>],
    ['Announced', <When key="c" at={m.created_at} />],
    ...(m.ended_at ? [['Over', <span key="e"><When at={m.ended_at} />{m.ended_because && `: ${m.ended_because}`}</span>] as [string, ReactNode]] : []),
    ['Id', <Code key="i">{m.maintenance_id}</Code>],
  ]
}
