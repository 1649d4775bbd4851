import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api, asRefusal, got } from '../../api/client'
import { ActForm } from '../../ui/actform'
import { Dialog } from '../../ui/dialog'
import { CheckField, SelectField, TextField } from '../../ui/form'
import { lifeHint } from '../../ui/life'
import { say } from '../../ui/toast'
import { draftOf, limitsOf, type Balance, type Draft } from './balance'

/** SetLimits says how far a tenant may go, and when it is warned. */
export function SetLimits({ orgId, balance, onClose }: { orgId: string; balance: Balance; onClose: () => void }) {
  const queries = useQueryClient()
  const [draft, setDraft] = useState(() => draftOf(balance))
  const change = (patch: Partial<Draft>) => setDraft({ ...draft, ...patch })
  const { body, wrong, ready } = limitsOf(draft, balance)
  const doing = useMutation({
    mutationFn: () => got(api.PUT('/api/v1/tenants/{org_id}/balance/limits', { params: { path: { org_id: orgId } }, body })),
    onSuccess: () => {
      say('The limits are set.')
      void queries.invalidateQueries({ queryKey: ['balances'] })
      onClose()
    },
  })
  const refused = doing.error ? asRefusal(doing.error).fields : {}
  return (
    <Dialog title="How far the tenant may go" onClose={onClose} wide>
      <ActForm doing={doing} does="Set" leave="Cancel" disabled={!ready} onClose={onClose}>
        <div className="grid gap-4 sm:grid-cols-2">
          <SelectField
            label="It pays"
            value={draft.payment}
            onChange={(payment) => change({ payment: payment === 'prepaid' ? 'prepaid' : 'postpaid' })}
            options={[
              { value: 'prepaid', label: 'in advance: it may use what it has' },
              { value: 'postpaid', label: 'afterwards' },
            ]}
            error={refused.payment}
          />
          <TextField label={`Below zero at most, in ${balance.currency}`} value={draft.line} onChange={(line) => change({ line })} hint={draft.payment === 'prepaid' ? 'Left empty: not at all.' : 'Left empty: without limit, and nothing below ever happens.'} error={wrong.line ?? refused.credit_line_minor} />
          <TextField label="Warn when it lasts no longer than" value={draft.low} onChange={(low) => change({ low })} hint={`${lifeHint} Left empty: only by the amount.`} error={wrong.low ?? refused.low_seconds} />
          <TextField label={`Warn when no more is left than, in ${balance.currency}`} value={draft.lowAmount} onChange={(lowAmount) => change({ lowAmount })} hint="Left empty: only by the time." error={wrong.lowAmount ?? refused.low_minor} />
          <TextField label="Tell of releases when it lasts no longer than" value={draft.release} onChange={(release) => change({ release })} hint={lifeHint} error={wrong.release ?? refused.release_seconds} />
          <TextField label="Release how long after the end" value={draft.grace} onChange={(grace) => change({ grace })} hint="At most 30d. Left empty: at once." error={wrong.grace ?? refused.grace_seconds} />
        </div>
        <CheckField label="Release its allocations if it cannot pay them by these limits" value={draft.end} onChange={(end) => change({ end })} hint="Left empty: limits that would release something are refused, and you are told what." />
        <p className="text-sm text-muted">At the end nothing new is let to the tenant, and its allocations are released: the newest first, protected ones last. Money that is added stops it.</p>
      </ActForm>
    </Dialog>
  )
}
