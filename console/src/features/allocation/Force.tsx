import { useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api, got } from '../../api/client'
import { useMay } from '../../app/session'
import { ReasonDialog } from '../../ui/dialog'
import { CheckField } from '../../ui/form'
import { Menu, type Entry } from '../../ui/menu'
import { say } from '../../ui/toast'
import { called, type Allocation } from './allocation'

/** Force is what administrators do to the allocations of others. */
export function Force({ allocation: a }: { allocation: Allocation }) {
  const may = useMay()
  const queries = useQueryClient()
  const [asked, setAsked] = useState<'release' | 'cleanup' | 'begin' | 'end'>()
  const [absent, setAbsent] = useState(false)
  if (!may('allocation:force')) return null
  const path = { allocation_id: a.allocation_id }
  const entries: Entry[] = []
  if (a.status !== 'released') entries.push({ key: 'release', title: 'Force the release …', hint: 'End it without its tenant, or have it cleaned again.', onSelect: () => setAsked('release') })
  if (a.status === 'requested' || a.status === 'provisioning') entries.push({ key: 'cleanup', title: 'Abandon it …', hint: 'For an allocation that is stuck before handover.', onSelect: () => setAsked('cleanup') })
  if (a.status === 'active' && !a.repairing) entries.push({ key: 'begin', title: 'Begin a repair …', hint: 'Its tenant keeps the node.', onSelect: () => setAsked('begin') })
  if (a.repairing) entries.push({ key: 'end', title: 'End the repair …', hint: 'Its tenant can use the node again.', onSelect: () => setAsked('end') })
  const repair = {
    onDone: () => {
      say('Its tenant was notified.')
      void queries.invalidateQueries({ queryKey: ['allocations'] })
    },
    onClose: () => setAsked(undefined),
  }
  const common = {
    danger: true,
    confirm: called(a),
    onDone: () => {
      say('The control plane has started it.')
      void queries.invalidateQueries({ queryKey: ['allocations'] })
    },
    onClose: () => setAsked(undefined),
  }
  return (
    <>
      <Menu label="Administer" entries={entries} />
      {asked === 'release' && (
        <ReasonDialog {...common} title={`Force the release of ${called(a)}`} does="Force the release" act={(reason) => got(api.POST('/api/v1/admin/allocations/{allocation_id}/force-release', { params: { path }, body: { reason } }))}>
          <p>Everything that the tenant has on {a.hostname} is destroyed. The node is cleaned as after any release, and nobody gets it before it is proven clean.</p>
        </ReasonDialog>
      )}
      {asked === 'begin' && (
        <ReasonDialog {...repair} title={`Repair ${a.hostname}`} does="Begin the repair" act={(reason) => got(api.POST('/api/v1/admin/allocations/{allocation_id}/repair/begin', { params: { path }, body: { reason } }))}>
          <p>The tenant reads why, keeps the allocation and loses its terminals until the repair is ended. Nobody else gets the node before that.</p>
        </ReasonDialog>
      )}
      {asked === 'end' && (
        <ReasonDialog {...repair} title={`End the repair of ${a.hostname}`} does="End the repair" act={(reason) => got(api.POST('/api/v1/admin/allocations/{allocation_id}/repair/end', { params: { path }, body: { reason } }))}>
          <p>The tenant reads what was done.</p>
        </ReasonDialog>
      )}
      {asked === 'cleanup' && (
        <ReasonDialog {...common} title={`Abandon ${called(a)}`} does="Abandon it" act={(reason) => got(api.POST('/api/v1/admin/allocations/{allocation_id}/force-cleanup', { params: { path }, body: { reason, runtime_verified_absent: absent } }))}>
          <p>The allocation fails, and {a.hostname} is cleaned.</p>
          <CheckField label={`I have checked that nothing of it runs on ${a.hostname}`} value={absent} onChange={setAbsent} hint="Required." />
        </ReasonDialog>
      )}
    </>
  )
}
