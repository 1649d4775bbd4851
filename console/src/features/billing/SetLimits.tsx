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
    <Dialog title="Limits of the tenant" onClose={onClose} wide>
      <ActForm doing={doing} does="Set" leave="Cancel" disabled={!ready} onClose={onClose}>
        <div className="grid gap-4 sm:grid-cols-2">
          <SelectField
            label="It pays"
            value={draft.payment}
            onChange={(payment) => change({ payment: payment === 'prepaid' ? 'prepaid' : 'postpaid' })}
            options={[
              { value: 'prepaid', label: 'prepaid: it can spend only what was paid in' },
              { value: 'postpaid', label: 'postpaid: it pays later' },
            ]}
            error={refused.payment}
          />
          <TextField label={`Credit line, in ${balance.currency}`} value={draft.line} onChange={(line) => change({ line })} hint={draft.payment === 'prepaid' ? 'Empty: the balance may not go below zero.' : 'Empty: no limit, so nothing below ever happens.'} error={wrong.line ?? refused.credit_line_minor} />
          <TextField label="Warn when it lasts no longer than" value={draft.low} onChange={(low) => change({ low })} hint={`${lifeHint} Empty: only by the amount.`} error={wrong.low ?? refused.low_seconds} />
          <TextField label={`Warn when less is left than, in ${balance.currency}`} value={draft.lowAmount} onChange={(lowAmount) => change({ lowAmount })} hint="Empty: only by the time." error={wrong.lowAmount ?? refused.low_minor} />
          <TextField label="Announce releases when it lasts less than" value={draft.release} onChange={(release) => change({ release })} hint={lifeHint} error={wrong.release ?? refused.release_seconds} />
          <TextField label="Release allocations this long after it is used up" value={draft.grace} onChange={(grace) => change({ grace })} hint="At most 30d. Empty: immediately." error={wrong.grace ?? refused.grace_seconds} />
        </div>
        <CheckField label="Release allocations that these limits do not cover" value={draft.end} onChange={(end) => change({ end })} hint="If this is off, limits that would release something are refused, and you see what they would release." />
        <p className="text-sm text-muted">When the limit is reached, the tenant cannot rent anything new and its allocations are released, newest first and protected ones last. Adding money stops this.</p>
      </ActForm>
    </Dialog>
  )
}
