import { useState } from 'react'
import { api, got } from '../../api/client'
import { ReasonDialog } from '../../ui/dialog'
import { SelectField } from '../../ui/form'
import { words } from '../../ui/tone'
import type { Detail } from './queries'
import { liftable } from './scheduling'

/** LiftHold lifts one hold of a node: where several keep it, the others stay. */
export function LiftHold({ node, onDone, onClose }: { node: Detail; onDone: () => void; onClose: () => void }) {
  const holds = liftable(node).length > 0 ? liftable(node) : (node.holds ?? [])
  const [chosen, setChosen] = useState(holds[0]?.hold_id ?? '')
  const lift = (reason: string) => got(api.POST('/api/v1/admin/nodes/{node_id}/holds/{hold_id}/lift', { params: { path: { node_id: node.node_id, hold_id: chosen } }, body: { reason } }))
  return (
    <ReasonDialog title={`Lift a hold on ${node.hostname}`} does="Lift it" act={lift} onDone={onDone} onClose={onClose}>
      <SelectField label="Hold" value={chosen} onChange={setChosen} options={holds.map((h) => ({ value: h.hold_id, label: `${words(h.kind)}: ${h.reason}` }))} />
      <p>When the last hold is lifted, new work may be placed on the node as soon as it is active. If the node is not proven clean, the hold cannot be lifted: choose Turnover, Soft reset first.</p>
    </ReasonDialog>
  )
}
