import words from '../../api/gen/explained.json'

/** What the contract says of one field of a form. */
export type Explanation = {
  description?: string
  type?: string
  format?: string
  minimum?: number
  maximum?: number
  minLength?: number
  maxLength?: number
  pattern?: string
  enum?: string[]
  required: boolean
  example?: string | number | number[]
}

export type FormName = keyof typeof words

/** What is typed into a form: text, and ticks. */
export type Draft = Record<string, string | boolean>

/** Rule says what is wrong with a text, or nothing. */
export type Rule = (text: string) => string | undefined

export const explained = words as unknown as Record<FormName, Record<string, Explanation>>

export function explanationOf(form: FormName, field: string): Explanation {
  return explained[form][field] ?? { required: false }
}

/** split takes a list of values apart: one each line, or with commas between. */
export function split(text: string): string[] {
  return text.split(/[\s,;]+/).filter((v) => v !== '')
}

/**
 * wrongs holds what was typed against the limits of the contract, and against
 * rules that it says in words only. The key of each is its field.
 */
export function wrongs(form: FormName, draft: Draft, rules: Record<string, Rule> = {}): Record<string, string> {
  const out: Record<string, string> = {}
  for (const [field, value] of Object.entries(draft)) {
    if (typeof value === 'boolean') continue
    const wrong = limit(explanationOf(form, field), value.trim()) ?? (value.trim() === '' ? undefined : rules[field]?.(value.trim()))
    if (wrong) out[field] = wrong
  }
  return out
}

/** emptied is what had a value before and has none now, although something has to stand there. */
export function emptied(draft: Draft, before: Draft, mayBeEmpty: string[]): Record<string, string> {
  const gone = Object.keys(before).filter((f) => !mayBeEmpty.includes(f) && typeof before[f] === 'string' && before[f] !== '' && String(draft[f]).trim() === '')
  return Object.fromEntries(gone.map((f) => [f, 'must not be empty']))
}

function limit(e: Explanation, text: string): string | undefined {
  if (text === '') return e.required ? 'is required' : undefined
  if (e.type === 'integer') {
    if (!/^-?\d{1,15}$/.test(text)) return 'must be a whole number'
    const n = Number(text)
    const { minimum = -Infinity, maximum = Infinity } = e
    if (n < minimum || n > maximum) return `must be ${range(e)}`
    return undefined
  }
  if (e.maxLength !== undefined && text.length > e.maxLength) return `must be at most ${count(e.maxLength)} characters`
  if (e.enum && !e.enum.includes(text)) return `must be one of ${e.enum.join(', ')}`
  if (e.type === 'string' && e.pattern && !new RegExp(e.pattern).test(text)) return `must be of the form ${exampleOf(e) ?? e.pattern}`
  return undefined
}

/** exampleOf is an example of what may stand in a field. */
export function exampleOf({ example }: Explanation): string | undefined {
  return Array.isArray(example) ? example.join(', ') : example?.toString()
}

const count = (n: number) => n.toLocaleString('en')

/** range says which numbers are possible. */
export function range({ minimum, maximum }: Explanation): string {
  if (minimum !== undefined && maximum !== undefined) return `${count(minimum)} to ${count(maximum)}`
  if (minimum !== undefined) return `at least ${count(minimum)}`
  return maximum !== undefined ? `at most ${count(maximum)}` : ''
}

/**
 * bodyOf makes of what was typed what the contract wants. With `before` only what
 * has changed is in it; without, what was left empty is left out.
 */
export function bodyOf(form: FormName, draft: Draft, before?: Draft): Record<string, unknown> {
  const out: Record<string, unknown> = {}
  for (const [field, value] of Object.entries(draft)) {
    if (before ? before[field] === value : value === '') continue
    out[field] = typeof value === 'boolean' ? value : typed(explanationOf(form, field), value)
  }
  return out
}

function typed(e: Explanation, text: string): unknown {
  if (e.type === 'integer') return Number(text)
  if (e.type === 'array') return split(text)
  return text.trim()
}

/** draftOf is what stands in the form of something that exists, or of something new. */
export function draftOf(form: FormName, fields: string[], from: Record<string, unknown>): Draft {
  const out: Draft = {}
  for (const field of fields) out[field] = explanationOf(form, field).type === 'boolean' ? from[field] === true : textOf(from[field])
  return out
}

function textOf(value: unknown): string {
  if (Array.isArray(value)) return value.map(textOf).join('\n')
  return typeof value === 'string' || typeof value === 'number' ? String(value) : ''
}

/**
 * byField is what the control plane found wrong, by the fields of a form: a problem
 * with one value of a list belongs to the list.
 */
export function byField(refused: Record<string, string>): Record<string, string> {
  const out: Record<string, string> = {}
  for (const [path, message] of Object.entries(refused)) {
    const [, field = path, index] = /^([^[.]+)\[(\d+)\]$/.exec(path) ?? []
    const text = index === undefined ? message : `value ${Number(index) + 1} ${message}`
    out[field] = out[field] ? `${out[field]}; ${text}` : text
  }
  return out
}
