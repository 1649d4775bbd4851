import { useMutation } from '@tanstack/react-query'
import { useState } from 'react'
import { api, asRefusal, got } from '../../api/client'
import { ActForm } from '../../ui/actform'
import { Loading } from '../../ui/basics'
import { Dialog } from '../../ui/dialog'
import { CheckField, SelectField, TextArea, TextField } from '../../ui/form'
import { minorOf, money } from '../../ui/money'
import { ProblemNote } from '../../ui/problem'
import { useNow } from '../../ui/time'
import { useOffered } from '../sku/offered'
import { beginOf, type Price } from './price'

/** SetPrice begins another price of a SKU, now or at a time to come. */
export function SetPrice({ sku: first, onDone, onClose }: { sku?: string; onDone: (text: string) => void; onClose: () => void }) {
  const now = useNow()
  const { skus, pending, error } = useOffered()
  const [chosen, setChosen] = useState(first ?? '')
  const [typed, setTyped] = useState<string>()
  const [amount, setAmount] = useState('')
  const [meter, setMeter] = useState<Price['meter']>('held')
  const [begins, setBegins] = useState('')
  const [reason, setReason] = useState('')
  const [free, setFree] = useState(false)
  const [atOnce, setAtOnce] = useState(false)
  const sku = skus.find((s) => s.sku_id === chosen) ?? skus[0]
  // The currency that the SKU has a price in is what people mean.
  const currency = typed ?? sku?.price_currency ?? ''
  const known = /^[A-Z]{3}$/.test(currency)
  const { minor, wrong } = minorOf(amount, currency)
  const from = beginOf(begins, now)
  const doing = useMutation({
    mutationFn: () => got(api.POST('/api/v1/admin/prices', { body: { sku: sku?.sku_id ?? '', meter, currency, price_minor: minor ?? 0, free: minor === 0 && free, at_once: atOnce, valid_from: from.at, reason: reason.trim() || undefined } })),
    onSuccess: (p) => {
      onDone(`${p.sku} costs ${money(p.price_minor, p.currency)} for a GPU and an hour${p.meter === 'reserved' ? ' while it is reserved and not used' : ''}${p.in_force ? '' : ' from then on'}.`)
      onClose()
    },
  })
  const refused = doing.error ? asRefusal(doing.error).fields : {}
  return (
    <Dialog title="Set a price" onClose={onClose}>
      {error && <ProblemNote error={error} />}
      {pending && <Loading what="SKUs" />}
      {!pending && (
        <ActForm doing={doing} does="Set" leave="Cancel" disabled={!sku || !known || minor === undefined || (minor === 0 && !free) || (atOnce && !reason.trim()) || !!from.wrong} onClose={onClose}>
          <SelectField label="SKU" value={sku?.sku_id ?? ''} onChange={setChosen} options={skus.map((s) => ({ value: s.sku_id, label: s.display_name }))} error={refused.sku} />
          <SelectField label="For" value={meter} onChange={(v) => setMeter(v === 'reserved' ? v : 'held')} options={[{ value: 'held', label: 'nodes that somebody rents' }, { value: 'reserved', label: 'nodes that are reserved and not used' }]} hint="Reserved nodes are charged only where a reservation was made to be charged." error={refused.meter} />
          <TextField label="Currency" required value={currency} onChange={(v) => setTyped(v.toUpperCase())} hint="Tenants rent the SKU at its price in their own currency." error={currency && !known ? 'Three letters, such as USD.' : refused.currency} />
          <TextField label="Price of one GPU for an hour" required value={amount} onChange={setAmount} hint="Of a machine without GPUs: of the machine." error={(amount ? wrong : undefined) ?? refused.price_minor} />
          {minor === 0 && <CheckField label="Free of charge" value={free} onChange={setFree} hint="A price of zero gives it away." />}
          <TextField label="Begins" type="datetime-local" value={begins} onChange={setBegins} hint="In your time zone. Empty: it begins now, and cannot be withdrawn." error={from.wrong ?? refused.valid_from} />
          <TextArea label="Reason" rows={2} most={500} value={reason} onChange={setReason} hint="All tenants can read it." error={refused.reason} />
          <CheckField label="Without notice" value={atOnce} onChange={setAtOnce} hint="Allocations that follow the list need advance notice of a new price. To skip the notice, give a reason." />
        </ActForm>
      )}
    </Dialog>
  )
}
