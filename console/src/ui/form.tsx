import { useId, type ReactNode } from 'react'

const box = 'w-full rounded-md border bg-surface px-2.5 py-1.5 text-sm text-ink placeholder:text-muted disabled:opacity-60'
const edge = (error?: string) => (error ? 'border-bad' : 'border-line')

type Common = { label: string; hint?: ReactNode; error?: string; required?: boolean; disabled?: boolean }

function Frame({ label, hint, error, required, id, children }: Common & { id: string; children: ReactNode }) {
  return (
    <div className="flex min-w-0 flex-col gap-1">
      <label htmlFor={id} className="text-sm font-medium">
        {label}
        {required && <span className="text-bad"> *</span>}
      </label>
      {children}
      {hint && (
        <p id={`${id}-hint`} className="text-xs text-muted">
          {hint}
        </p>
      )}
      {error && (
        <p id={`${id}-error`} role="alert" className="text-xs text-bad">
          {error}
        </p>
      )}
    </div>
  )
}

const described = (id: string, c: Common) =>
  ({ id, required: c.required, disabled: c.disabled, 'aria-invalid': c.error ? true : undefined, 'aria-describedby': [c.hint && `${id}-hint`, c.error && `${id}-error`].filter(Boolean).join(' ') || undefined }) as const

export function TextField({
  value,
  onChange,
  type = 'text',
  placeholder,
  autoFocus,
  list,
  ...c
}: Common & { value: string; onChange: (v: string) => void; type?: 'text' | 'number' | 'url' | 'password' | 'search' | 'datetime-local'; placeholder?: string; autoFocus?: boolean; list?: string[] }) {
  const id = useId()
  return (
    <Frame {...c} id={id}>
      <input
        {...described(id, c)}
        type={type}
        value={value}
        placeholder={placeholder}
        // eslint-disable-next-line jsx-a11y/no-autofocus -- only where there is one thing to do
        autoFocus={autoFocus}
        list={list ? `${id}-list` : undefined}
        // A secret is typed here once and never suggested again.
        autoComplete={type === 'password' ? 'new-password' : 'off'}
        spellCheck={false}
        onChange={(e) => onChange(e.target.value)}
        className={`${box} ${edge(c.error)}`}
      />
      {list && (
        <datalist id={`${id}-list`}>
          {list.map((v) => (
            <option key={v} value={v} />
          ))}
        </datalist>
      )}
    </Frame>
  )
}

/** ReasonField asks why. */
export function ReasonField({ value, onChange, hint = 'Kept in the audit log, with your name.' }: { value: string; onChange: (v: string) => void; hint?: string }) {
  return <TextArea label="Reason" required rows={2} most={500} value={value} onChange={onChange} hint={hint} />
}

export function TextArea({ value, onChange, rows = 4, placeholder, mono, most, ...c }: Common & { value: string; onChange: (v: string) => void; rows?: number; placeholder?: string; mono?: boolean; /** How many characters it may have. */ most?: number }) {
  const id = useId()
  return (
    <Frame {...c} id={id}>
      <textarea {...described(id, c)} value={value} rows={rows} maxLength={most} placeholder={placeholder} spellCheck={false} onChange={(e) => onChange(e.target.value)} className={`${box} ${edge(c.error)} ${mono ? 'font-mono text-xs' : ''}`} />
    </Frame>
  )
}

export function SelectField({ value, onChange, options, ...c }: Common & { value: string; onChange: (v: string) => void; options: (string | { value: string; label: string })[] }) {
  const id = useId()
  return (
    <Frame {...c} id={id}>
      <select {...described(id, c)} value={value} onChange={(e) => onChange(e.target.value)} className={`${box} ${edge(c.error)}`}>
        {options.map((o) => {
          const { value: v, label } = typeof o === 'string' ? { value: o, label: o.replaceAll('_', ' ') } : o
          return (
            <option key={v} value={v}>
              {label}
            </option>
          )
        })}
      </select>
    </Frame>
  )
}

export function CheckField({ value, onChange, label, hint, disabled }: { value: boolean; onChange: (v: boolean) => void; label: ReactNode; hint?: ReactNode; disabled?: boolean }) {
  const id = useId()
  return (
    <div className="flex items-start gap-2">
      <input id={id} type="checkbox" checked={value} disabled={disabled} aria-describedby={hint ? `${id}-hint` : undefined} onChange={(e) => onChange(e.target.checked)} className="mt-0.5 size-4 shrink-0 accent-(--accent)" />
      <div>
        <label htmlFor={id} className="text-sm font-medium">
          {label}
        </label>
        {hint && (
          <p id={`${id}-hint`} className="text-xs text-muted">
            {hint}
          </p>
        )}
      </div>
    </div>
  )
}
