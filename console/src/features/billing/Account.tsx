import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api, asRefusal, got, type Schemas } from '../../api/client'
import { ActForm } from '../../ui/actform'
import { Dialog } from '../../ui/dialog'
import { ReasonField, SelectField, TextField } from '../../ui/form'
import { minorOf, money } from '../../ui/money'
import { say } from '../../ui/toast'
import { shareOf } from './entries'

/** useMoved reads anew what a change of money changes. */
function useMoved() {
  const queries = useQueryClient()
  return (text: string) => {
    say(text)
    for (const key of ['billing-accounts', 'balances', 'ledger']) void queries.invalidateQueries({ queryKey: [key] })
  }
}

/** SetAccount opens the billing account of a tenant, or changes what is agreed for what it rents. */
export function SetAccount({ orgId, account, onClose }: { orgId: string; account?: Schemas['AccountView']; onClose: () => void }) {
  const moved = useMoved()
  const [currency, setCurrency] = useState(account?.currency ?? '')
  const [discount, setDiscount] = useState(account ? String((10_000 - account.paid_share) / 100) : '0')
  const [pricing, setPricing] = useState<Schemas['AccountView']['pricing']>(account?.pricing ?? 'fixed')
  const { share, wrong } = shareOf(discount)
  const right = /^[A-Z]{3}$/.test(currency)
  const doing = useMutation({
    mutationFn: () => got(api.PUT('/api/v1/tenants/{org_id}/billing-account', { params: { path: { org_id: orgId } }, body: { currency, paid_share: share, pricing, version: account?.version } })),
    onSuccess: () => {
      moved(account ? 'The billing account was changed.' : 'The billing account is open.')
      onClose()
    },
  })
  const refused = doing.error ? asRefusal(doing.error).fields : {}
  return (
    <Dialog title={account ? 'Change the billing account' : 'Open a billing account'} onClose={onClose}>
      <ActForm doing={doing} does={account ? 'Change' : 'Open the account'} leave="Cancel" disabled={!right || share === undefined} onClose={onClose}>
        {!account && <TextField label="Currency" required value={currency} onChange={(v) => setCurrency(v.toUpperCase())} placeholder="USD" hint="A three-letter code. You cannot change it later. The tenant can rent only SKUs that have a price in this currency." error={currency && !right ? 'Three letters, such as USD.' : refused.currency} />}
        <TextField label="Discount in percent" required value={discount} onChange={setDiscount} hint="Applies to every price of new allocations. Existing allocations keep their terms." error={wrong ?? refused.paid_share} />
        <SelectField
          label="Prices"
          value={pricing}
          onChange={(v) => setPricing(v as typeof pricing)}
          hint="Applies to new allocations."
          options={[
            { value: 'fixed', label: 'fixed: an allocation keeps the price it started with' },
            { value: 'follows_list', label: 'follow the list: new prices also apply to existing allocations' },
          ]}
          error={refused.pricing}
        />
      </ActForm>
    </Dialog>
  )
}

/** Credit gives a tenant money. */
export function Credit({ orgId, currency, onClose }: { orgId: string; currency: string; onClose: () => void }) {
  const moved = useMoved()
  const [amount, setAmount] = useState('')
  const [reference, setReference] = useState('')
  const [reason, setReason] = useState('')
  const { minor, wrong } = minorOf(amount, currency)
  const none = minor === 0 ? 'Enter an amount above zero.' : undefined
  const doing = useMutation({
    mutationFn: () => got(api.POST('/api/v1/tenants/{org_id}/credits', { params: { path: { org_id: orgId } }, body: { amount_minor: minor ?? 0, currency, reference: reference.trim(), reason: reason.trim() } })),
    onSuccess: (entry) => {
      moved(`${money(entry.amount_minor, entry.currency)} was added.`)
      onClose()
    },
  })
  const refused = doing.error ? asRefusal(doing.error).fields : {}
  return (
    <Dialog title="Add money" onClose={onClose}>
      <ActForm doing={doing} does={minor ? `Add ${money(minor, currency)}` : 'Add'} leave="Cancel" disabled={!minor || !reference.trim() || !reason.trim()} onClose={onClose}>
        <TextField label={`Amount in ${currency}`} required value={amount} onChange={setAmount} error={(amount ? (wrong ?? none) : undefined) ?? refused.amount_minor} />
        <TextField label="Reference" required value={reference} onChange={setReference} placeholder="invoice 17" hint="For example the invoice or payment number. Each can be used once per tenant, which prevents double bookings." error={refused.reference} />
        <ReasonField value={reason} onChange={setReason} hint="The tenant can read it in the ledger." />
      </ActForm>
    </Dialog>
  )
}
