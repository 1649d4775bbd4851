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
      moved(account ? 'It is changed.' : 'The billing account is open.')
      onClose()
    },
  })
  const refused = doing.error ? asRefusal(doing.error).fields : {}
  return (
    <Dialog title={account ? 'Change the billing account' : 'Open a billing account'} onClose={onClose}>
      <ActForm doing={doing} does={account ? 'Change' : 'Open the account'} leave="Cancel" disabled={!right || share === undefined} onClose={onClose}>
        {!account && <TextField label="Currency" required value={currency} onChange={(v) => setCurrency(v.toUpperCase())} placeholder="USD" hint="Its code of three letters. It can never be changed. SKUs are rented only where they have a price in it." error={currency && !right ? 'Three letters, such as USD.' : refused.currency} />}
        <TextField label="Discount in percent" required value={discount} onChange={setDiscount} hint="Taken off every price, for what is rented from now on. What is rented already keeps what was agreed." error={wrong ?? refused.paid_share} />
        <SelectField
          label="Prices"
          value={pricing}
          onChange={(v) => setPricing(v as typeof pricing)}
          hint="For what is rented from now on."
          options={[
            { value: 'fixed', label: 'stay as they are when something is rented' },
            { value: 'follows_list', label: 'follow the list: each counts from when it begins' },
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
  const none = minor === 0 ? 'More than nothing.' : undefined
  const doing = useMutation({
    mutationFn: () => got(api.POST('/api/v1/tenants/{org_id}/credits', { params: { path: { org_id: orgId } }, body: { amount_minor: minor ?? 0, currency, reference: reference.trim(), reason: reason.trim() } })),
    onSuccess: (entry) => {
      moved(`${money(entry.amount_minor, entry.currency)} are booked.`)
      onClose()
    },
  })
  const refused = doing.error ? asRefusal(doing.error).fields : {}
  return (
    <Dialog title="Add money" onClose={onClose}>
      <ActForm doing={doing} does={minor ? `Add ${money(minor, currency)}` : 'Add'} leave="Cancel" disabled={!minor || !reference.trim() || !reason.trim()} onClose={onClose}>
        <TextField label={`Amount in ${currency}`} required value={amount} onChange={setAmount} error={(amount ? (wrong ?? none) : undefined) ?? refused.amount_minor} />
        <TextField label="Reference" required value={reference} onChange={setReference} placeholder="invoice 17" hint="What names it elsewhere. Each is used once per tenant, so that nothing is booked twice by mistake." error={refused.reference} />
        <ReasonField value={reason} onChange={setReason} hint="The tenant reads it in the ledger." />
      </ActForm>
    </Dialog>
  )
}
