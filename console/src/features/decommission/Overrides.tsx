import { useMutation } from '@tanstack/react-query'
import { useState, type SyntheticEvent } from 'react'
import { api, got, type Schemas } from '../../api/client'
import { useMay } from '../../app/session'
import { Badge, Button, Card, Code, Note } from '../../ui/basics'
import { Dialog } from '../../ui/dialog'
import { ReasonField, TextArea, TextField } from '../../ui/form'
import { ProblemNote } from '../../ui/problem'
import { When } from '../../ui/time'
import { say } from '../../ui/toast'
import type { Stage } from '../job/job'

type Detail = Schemas['DecommissionDetailView']

/** FollowUps is what was not done and is left to somebody. */
export function FollowUps({ of }: { of: Detail['follow_ups'] }) {
  if (of.length === 0) return null
  return (
    <Card title={<>Follow-up work <Badge tone="warn">{of.length}</Badge></>}>
      <ul className="flex flex-col divide-y divide-line">
        {of.map((f) => (
          <li key={f.stage + f.what} className="py-2 text-sm first:pt-0 last:pb-0">
            <p className="font-medium">{f.what}</p>
            <p className="text-muted">
              Not done because {f.why} · <When at={f.at} />
            </p>
            {f.command && (
              <p className="mt-1">
                <Code>{f.command}</Code>
              </p>
            )}
          </li>
        ))}
      </ul>
    </Card>
  )
}

/** Overrides is what operators decided to go on without, and the risk that leaves. */
export function Overrides({ of, stages }: { of: Detail['overrides']; stages: Stage[] }) {
  if (of.length === 0) return null
  return (
    <Card title={<>Skipped stages <Badge tone="bad">{of.length}</Badge></>}>
      <ul className="flex flex-col divide-y divide-line">
        {of.map((o) => (
          <li key={`${o.epoch} ${o.stage}`} className="py-2 text-sm first:pt-0 last:pb-0">
            <p className="font-medium">{stages.find((s) => s.name === o.stage)?.title ?? o.stage}</p>
            <p>
              <span className="text-muted">Remaining risk: </span>
              {o.residual_risk}
            </p>
            <p className="text-muted">
              “{o.reason}”: {o.actor}, <When at={o.at} />
            </p>
          </li>
        ))}
      </ul>
    </Card>
  )
}

/** OverrideOffer lets an operator go on without the stage that failed, where that is allowed. It stands in the certificate. */
export function OverrideOffer({ of, onDone }: { of: Detail; onDone: () => void }) {
  const may = useMay()
  // What is asked stays what it was about, also when the operation has come to another stage meanwhile.
  const [asked, setAsked] = useState<Asked>()
  const offer = of.explanation.override
  return (
    <>
      {offer && (
        <Note tone="warn" title="You can continue without this stage" actions={may('decommission:manage') && <Button onClick={() => setAsked({ ...offer, title: of.explanation.stage_title })}>Continue without it …</Button>}>
          <p>{offer.does}</p>
        </Note>
      )}
      {asked && <OverrideDialog of={of} asked={asked} onDone={onDone} onClose={() => setAsked(undefined)} />}
    </>
  )
}

type Asked = { stage: string; does: string; title: string }

function OverrideDialog({ of, asked: { stage, does, title }, onDone, onClose }: { of: Detail; asked: Asked; onDone: () => void; onClose: () => void }) {
  const [reason, setReason] = useState('')
  const [risk, setRisk] = useState('')
  const [typed, setTyped] = useState('')
  const doing = useMutation({
    mutationFn: () => got(api.POST('/api/v1/admin/decommissions/{decommission_id}/override', { params: { path: { decommission_id: of.decommission_id } }, body: { stage, also: of.explanation.override?.also, reason: reason.trim(), residual_risk: risk.trim() } })),
    onSuccess: () => {
      say(`${of.hostname} continues without ${title}.`, 'warn')
      onDone()
      onClose()
    },
  })
  const submit = (e: SyntheticEvent) => {
    e.preventDefault()
    doing.mutate()
  }
  return (
    <Dialog title={`Continue without: ${title}`} onClose={onClose}>
      <form onSubmit={submit} className="flex flex-col gap-4">
        <p className="text-sm">{does}</p>
        <TextArea label="Remaining risk" required rows={2} value={risk} onChange={setRisk} hint="Describe what may be left behind. The certificate states it to the next owner of the machine." placeholder="disks still hold tenant data; they will be shredded" />
        <ReasonField value={reason} onChange={setReason} hint="Kept in the audit log and the certificate, with your name." />
        <TextField label={`Type “${of.hostname}” to confirm`} required value={typed} onChange={setTyped} />
        {doing.error && <ProblemNote error={doing.error} />}
        <div className="flex justify-end gap-2">
          <Button onClick={onClose} disabled={doing.isPending}>
            Keep as it is
          </Button>
          <Button type="submit" look="danger" busy={doing.isPending} disabled={reason.trim() === '' || risk.trim() === '' || typed.trim() !== of.hostname}>
            Continue without it
          </Button>
        </div>
      </form>
    </Dialog>
  )
}
