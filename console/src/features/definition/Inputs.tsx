import { CheckField, SelectField, TextArea, TextField } from '../../ui/form'
import { choicesOf, type Draft, type Field } from './schema'

type Props = { fields: Field[]; draft: Draft; onChange: (d: Draft) => void; wrong: Record<string, string | undefined> }

/** Inputs is the form of what an operation takes, made of its schema. */
export function Inputs({ fields, draft, onChange, wrong }: Props) {
  if (fields.length === 0) return <p className="text-sm text-muted">It takes no inputs.</p>
  return (
    <div className="grid gap-4 md:grid-cols-2">
      {fields.map((f) => (
        <div key={f.name} className={f.kind === 'long' || f.kind === 'json' ? 'md:col-span-2' : ''}>
          <One field={f} value={draft[f.name] ?? ''} onChange={(v) => onChange({ ...draft, [f.name]: v })} error={wrong[f.name]} />
        </div>
      ))}
    </div>
  )
}

function One({ field, value, onChange, error }: { field: Field; value: string; onChange: (v: string) => void; error?: string }) {
  const common = { label: field.label, hint: field.hint, required: field.required, error, value, onChange }
  switch (field.kind) {
    case 'choice':
      return <SelectField {...common} options={[...(field.required && value !== '' ? [] : [{ value: '', label: field.required ? 'choose …' : 'leave it' }]), ...choicesOf(field)]} />
    case 'yesno':
      // Without a default, no and nothing are not the same.
      return typeof field.schema.default === 'boolean' ? (
        <CheckField label={field.label} hint={field.hint} value={value === 'true'} onChange={(on) => onChange(String(on))} />
      ) : (
        <SelectField {...common} options={[{ value: '', label: field.required ? 'choose …' : 'leave it' }, { value: 'true', label: 'yes' }, { value: 'false', label: 'no' }]} />
      )
    case 'list':
      return <TextArea {...common} rows={3} mono />
    case 'long':
    case 'json':
      return <TextArea {...common} rows={5} mono />
    default:
      return <TextField {...common} />
  }
}
