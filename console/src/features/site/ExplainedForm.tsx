import { useState, type ReactNode } from 'react'
import { asRefusal } from '../../api/client'
import { useDraft } from '../../app/draft'
import { CheckField, SelectField, TextArea, TextField } from '../../ui/form'
import { span } from '../../ui/time'
import { words } from '../../ui/tone'
import { byField, exampleOf, explanationOf, range, type Draft, type Explanation, type FormName } from './explained'

export type ExplainedForm = {
  name: FormName
  draft: Draft
  set: (field: string, value: string | boolean) => void
  /** What is wrong with a field, once somebody has been there. */
  wrong: (field: string) => string | undefined
  /** check shows everything that is wrong, and says whether nothing is. */
  check: () => boolean
  /** forget lets go of what was typed, once it is done. */
  forget: () => void
  /** refused shows at its fields what the control plane did not take. */
  refused: (error: unknown) => void
}

/**
 * useExplainedForm is a form whose fields the contract explains: it is judged while one
 * types, and shows what the control plane refuses at the field that it is about. One that
 * has a name to be kept by is there again when somebody comes back to it.
 */
export function useExplainedForm(name: FormName, initial: Draft, judge: (draft: Draft) => Record<string, string>, keptAs?: string): ExplainedForm {
  const [draft, setDraft, forget] = useDraft(keptAs, initial)
  const [seen, setSeen] = useState<Record<string, boolean>>({})
  const [all, setAll] = useState(false)
  const [fromServer, setFromServer] = useState<Record<string, string>>({})
  const now = judge(draft)
  return {
    name,
    draft,
    forget,
    set: (field, value) => {
      setDraft((d) => ({ ...d, [field]: value }))
      setSeen((s) => ({ ...s, [field]: true }))
      setFromServer((f) => Object.fromEntries(Object.entries(f).filter(([k]) => k !== field)))
    },
    wrong: (field) => fromServer[field] ?? (all || seen[field] ? now[field] : undefined),
    check: () => {
      setAll(true)
      return Object.keys(now).length === 0
    },
    refused: (error) => setFromServer(byField(asRefusal(error).fields)),
  }
}

type FieldProps = { form: ExplainedForm; field: string; label: string; placeholder?: string; rows?: number; disabled?: boolean; /** Words instead of the contract's. */ hint?: string }

/** ExplainedField is the control that suits a field, with what the contract says of it. */
export function ExplainedField({ form, field, label, placeholder, rows, disabled, hint }: FieldProps) {
  const e = explanationOf(form.name, field)
  const value = form.draft[field]
  const change = (v: string | boolean) => form.set(field, v)
  const said = hint ?? e.description
  if (typeof value === 'boolean') return <CheckField label={label} hint={said} value={value} onChange={change} disabled={disabled} />
  const common = { label, required: e.required, error: form.wrong(field), disabled, value: value ?? '', onChange: change }
  const example = placeholder ?? exampleOf(e)
  if (e.enum) return <SelectField {...common} hint={said} options={e.enum.map((v) => ({ value: v, label: words(v) }))} />
  if (e.type === 'array' || rows) return <TextArea {...common} mono rows={rows ?? 3} hint={said} placeholder={example} />
  return <TextField {...common} type={e.type === 'integer' ? 'number' : 'text'} hint={hintOf(e, field, value ?? '', said)} placeholder={example} />
}

function hintOf(e: Explanation, field: string, value: string, said = ''): string {
  if (e.type !== 'integer') return said
  const lasts = field.endsWith('_seconds') && /^\d+$/.test(value) ? ` Now ${span(Number(value))}.` : ''
  const unit = field.endsWith('_seconds') ? ' seconds' : ''
  const bounds = range(e)
  return `${said}${bounds ? ` ${bounds[0]?.toUpperCase()}${bounds.slice(1)}${unit}.` : ''}${lasts}`
}

/** Section groups fields under a title, side by side where there is room. */
export function Section({ title, lead, children }: { title: string; lead?: string; children: ReactNode }) {
  return (
    <fieldset className="min-w-0 rounded-lg border border-line bg-surface">
      <legend className="sr-only">{title}</legend>
      <div className="border-b border-line px-4 py-2.5">
        <p aria-hidden className="text-sm font-semibold">
          {title}
        </p>
        {lead && <p className="text-xs text-muted">{lead}</p>}
      </div>
      <div className="grid items-start gap-4 p-4 md:grid-cols-2 xl:grid-cols-3">{children}</div>
    </fieldset>
  )
}
