import { useQueryClient } from '@tanstack/react-query'
import { api, got } from '../../api/client'
import { ReasonDialog } from '../../ui/dialog'
import { say } from '../../ui/toast'
import { subjectOf, type Finding } from './findings'

/** Acknowledge says of a finding that it is known. */
export function Acknowledge({ finding, onClose }: { finding: Finding; onClose: () => void }) {
  const queries = useQueryClient()
  return (
    <ReasonDialog
      title={`Acknowledge: ${finding.title}`}
      does="Acknowledge"
      act={(reason) => got(api.POST('/api/v1/admin/reconciliation/findings/{finding_id}/acknowledge', { params: { path: { finding_id: finding.finding_id } }, body: { reason } }))}
      onDone={() => {
        say(`Acknowledged for ${subjectOf(finding)}.`)
        void queries.invalidateQueries({ queryKey: ['drift'] })
      }}
      onClose={onClose}
    >
      <p>Marks the finding as known and records your note. Nothing else changes: it stays open until a check no longer shows it.</p>
    </ReasonDialog>
  )
}
