import { useMutation } from '@tanstack/react-query'
import { useState } from 'react'
import { api, got, type Schemas } from '../../api/client'
import { ActForm } from '../../ui/actform'
import { Dialog } from '../../ui/dialog'
import { money } from '../../ui/money'
import { bodyOf, draftOf, explanationOf, type Draft } from '../site/explained'
import { ExplainedField, useExplainedForm } from '../site/ExplainedForm'
import { ifMatch } from '../site/siteQueries'
import { skuFields, wrongTerms } from './skuTerms'

// A list is text in a form, and these are numbers.
function termsOf(draft: Draft, before?: Draft): Record<string, unknown> {
  const body = bodyOf('SkuNewBody', draft, before)
  return Array.isArray(body.allowed_counts) ? { ...body, allowed_counts: body.allowed_counts.map(Number) } : body
}

/** NewSku describes a kind of machine that is to be offered. */
export function NewSku({ onClose, onDone }: { onClose: () => void; onDone: (text: string) => void }) {
  const [initial] = useState(() => ({ ...draftOf('SkuNewBody', skuFields, {}), gpu_vendor: 'nvidia', capacity_shape: 'node', allowed_counts: '1', price_currency: 'USD' }))
  const send = async (draft: Draft) => {
    const made = await got(api.POST('/api/v1/admin/skus', { body: termsOf(draft) as Schemas['SkuNewBody'] }))
    onDone(`SKU ${made.sku_id} is created.`)
    onClose()
  }
  return (
    <Dialog wide title="New SKU" onClose={onClose}>
      <SkuForm initial={initial} does="Create SKU" send={send} onClose={onClose} />
    </Dialog>
  )
}

export function EditSku({ sku, onClose, onDone }: { sku: Schemas['SkuView']; onClose: () => void; onDone: (text: string) => void }) {
  const [before] = useState(sku)
  const [initial] = useState(() => draftOf('SkuNewBody', skuFields, sku))
  const send = async (draft: Draft) => {
    const body = termsOf(draft, initial) as Schemas['SkuChange']
    if (Object.keys(body).length > 0) await got(api.PATCH('/api/v1/admin/skus/{sku_id}', { params: { path: { sku_id: before.sku_id }, header: ifMatch(before) }, body }))
    onDone(`SKU ${before.sku_id} is changed.`)
    onClose()
  }
  return (
    <Dialog wide title={`Edit SKU ${before.sku_id}`} onClose={onClose}>
      <SkuForm exists initial={initial} does="Save changes" send={send} onClose={onClose} />
    </Dialog>
  )
}

function SkuForm({ initial, exists, does, send, onClose }: { initial: Draft; exists?: boolean; does: string; send: (draft: Draft) => Promise<void>; onClose: () => void }) {
  const form = useExplainedForm('SkuNewBody', initial, wrongTerms, exists ? undefined : 'new SKU')
  const sending = useMutation({ mutationFn: () => send(form.draft), onSuccess: form.forget, onError: (error) => form.refused(error) })
  const { price_minor: minor, price_currency: currency } = form.draft
  const now = /^\d+$/.test(String(minor)) && /^[A-Z]{3}$/.test(String(currency)) ? ` Now ${money(Number(minor), String(currency))}.` : ''
  return (
    <ActForm doing={sending} does={does} leave={exists ? undefined : 'Cancel'} check={form.check} onClose={onClose}>
      <div className="grid items-start gap-4 sm:grid-cols-2">
        <ExplainedField form={form} field="sku_id" label="SKU" disabled={exists} hint={exists ? 'It keeps its id.' : undefined} />
        <ExplainedField form={form} field="display_name" label="Name" hint="What people read." />
        <ExplainedField form={form} field="gpu_vendor" label="GPU vendor" />
        <ExplainedField form={form} field="gpu_model" label="GPU model" />
        <ExplainedField form={form} field="gpus_total" label="GPUs of one machine" hint={exists ? 'Nodes that exist keep their count.' : undefined} />
        <ExplainedField form={form} field="capacity_shape" label="Rented" />
        <ExplainedField form={form} field="allowed_counts" label="Allowed counts" rows={1} placeholder="1, 2, 4" />
        <ExplainedField form={form} field="price_minor" label="Price" hint={`${explanationOf('SkuNewBody', 'price_minor').description ?? ''}${now}`} />
        <ExplainedField form={form} field="price_currency" label="Currency" hint="Three capital letters." />
      </div>
    </ActForm>
  )
}
