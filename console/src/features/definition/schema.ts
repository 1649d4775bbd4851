/** A JSON schema, as far as forms are made of it. */
export type Schema = {
  type?: unknown
  title?: unknown
  description?: unknown
  default?: unknown
  enum?: unknown
  const?: unknown
  format?: unknown
  pattern?: unknown
  items?: unknown
  properties?: unknown
  required?: unknown
  minimum?: unknown
  maximum?: unknown
  exclusiveMinimum?: unknown
  exclusiveMaximum?: unknown
  multipleOf?: unknown
  minLength?: unknown
  maxLength?: unknown
  minItems?: unknown
  maxItems?: unknown
  uniqueItems?: unknown
}

type Kind = 'text' | 'long' | 'number' | 'yesno' | 'choice' | 'list' | 'json'

/** A field of a form: what a person is asked for, and the schema that judges it. */
export type Field = {
  name: string
  label: string
  hint?: string
  required: boolean
  kind: Kind
  schema: Schema
  /** Of a choice: the values, in the order of the schema. */
  choices?: unknown[]
}

/** What is typed: text of every field by its name. A yes or no is "true" or "false", and empty is nothing. */
export type Draft = Record<string, string>

/** whole is the name of the one field of a schema that no form can be made of. */
export const whole = ''

const isObject = (v: unknown): v is Record<string, unknown> => typeof v === 'object' && v !== null && !Array.isArray(v)
const text = (v: unknown) => (typeof v === 'string' && v !== '' ? v : undefined)
const number = (v: unknown) => (typeof v === 'number' ? v : undefined)

// What a field of its own cannot show: then the value is typed as JSON, and the control plane judges the rest.
const beyond = ['$ref', '$dynamicRef', 'allOf', 'anyOf', 'oneOf', 'not', 'if']

/** longerThan is from how many characters on a text gets room for lines. */
const longerThan = 500

/** fieldsOf makes the fields of a form of a JSON schema of an object; a schema that is more than that becomes one field of JSON. */
export function fieldsOf(schema: unknown): Field[] {
  if (!isObject(schema)) return []
  const properties = schema.properties ?? {}
  if (beyond.some((k) => k in schema) || !isObject(properties)) return [{ name: whole, label: 'Inputs', hint: 'As JSON.', required: false, kind: 'json', schema: { type: 'object' } }]
  const required = Array.isArray(schema.required) ? schema.required : []
  const fields = Object.entries(properties).map(([name, s]) => fieldOf(name, isObject(s) ? s : {}, required.includes(name)))
  // What must be filled in comes first; otherwise the order of the schema stays.
  return [...fields.filter((f) => f.required), ...fields.filter((f) => !f.required)]
}

function fieldOf(name: string, schema: Record<string, unknown>, required: boolean): Field {
  const kind = kindOf(schema)
  const choices = kind === 'choice' ? ('const' in schema ? [schema.const] : (schema.enum as unknown[])) : undefined
  return { name, label: text(schema.title) ?? name.replaceAll('_', ' '), hint: hintOf(schema, kind, required), required, kind, schema, choices }
}

function kindOf(schema: Record<string, unknown>): Kind {
  if (beyond.some((k) => k in schema)) return 'json'
  if ('const' in schema) return 'choice'
  if (Array.isArray(schema.enum)) return 'choice'
  switch (schema.type) {
    case 'string':
      return (number(schema.maxLength) ?? 0) > longerThan ? 'long' : 'text'
    case 'integer':
    case 'number':
      return 'number'
    case 'boolean':
      return 'yesno'
    case 'array':
      return isObject(schema.items) && ['string', 'integer', 'number'].includes(String(schema.items.type)) && ['text', 'number', 'choice'].includes(kindOf(schema.items)) ? 'list' : 'json'
    default:
      return 'json'
  }
}

const formats: Record<string, string> = {
  'abs-path': 'A path that begins with /.',
  'unit-name': 'A unit of systemd, such as nginx.service.',
  'deb-name': 'A package of Debian or Ubuntu.',
  'deb-version': 'Exactly as the package manager writes it.',
}

function hintOf(schema: Schema, kind: Kind, required: boolean): string | undefined {
  const items = isObject(schema.items) ? (schema.items as Schema) : undefined
  const said = [text(schema.description), kind === 'list' ? 'One a line.' : undefined, kind === 'json' ? 'As JSON.' : undefined, shape(schema), items && shape(items), range(schema), sizes(schema, kind)]
  if (!required && kind !== 'yesno' && schema.default !== undefined && schema.default !== '') said.push(`Empty: ${written(schema.default)}.`)
  return said.filter(Boolean).join(' ') || undefined
}

function shape(schema: Schema): string | undefined {
  const format = text(schema.format)
  return format && (formats[format] ?? `Form: ${format}.`)
}

function range({ minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf }: Schema): string | undefined {
  const least = number(minimum) !== undefined ? `${number(minimum)} at least` : number(exclusiveMinimum) !== undefined ? `more than ${number(exclusiveMinimum)}` : ''
  const most = number(maximum) !== undefined ? `${number(maximum)} at most` : number(exclusiveMaximum) !== undefined ? `less than ${number(exclusiveMaximum)}` : ''
  const steps = number(multipleOf) !== undefined ? `a multiple of ${number(multipleOf)}` : ''
  const said = [least, most, steps].filter(Boolean).join(', ')
  return said && `${said.charAt(0).toUpperCase()}${said.slice(1)}.`
}

function sizes({ minItems, maxItems }: Schema, kind: Kind): string | undefined {
  if (kind !== 'list') return undefined
  const said = [number(minItems) ? `${number(minItems)} lines at least` : '', number(maxItems) ? `${number(maxItems)} at most` : ''].filter(Boolean).join(', ')
  return said && `${said}.`
}

const written = (value: unknown) => (typeof value === 'string' ? value : JSON.stringify(value))

/** draftOf is how a form begins: with the defaults of the schema, and over them what is given already. */
export function draftOf(fields: Field[], given: Record<string, unknown> = {}): Draft {
  return Object.fromEntries(fields.map((f) => [f.name, f.name === whole ? '{}' : typed(f, f.name in given ? given[f.name] : f.schema.default)]))
}

function typed(field: Field, value: unknown): string {
  if (field.kind === 'choice') {
    const at = field.choices?.findIndex((c) => JSON.stringify(c) === JSON.stringify(value)) ?? -1
    return at >= 0 ? String(at) : ''
  }
  if (value === undefined) return ''
  if (field.kind === 'list') return Array.isArray(value) ? value.map(written).join('\n') : ''
  if (field.kind === 'json') return JSON.stringify(value, null, 2)
  return written(value)
}

/** choicesOf lists what can be chosen, each under the text that stands for it in a draft. */
export const choicesOf = (field: Field) => (field.choices ?? []).map((c, i) => ({ value: String(i), label: written(c) }))

type Read = { value?: unknown; wrong?: string }

/** readField makes the value of what was typed, or says what is wrong with it. Empty is no value. */
export function readField(field: Field, draft: string): Read {
  const empty = field.kind === 'text' || field.kind === 'long' ? draft === '' : draft.trim() === ''
  if (empty) return field.required ? { wrong: field.kind === 'choice' || field.kind === 'yesno' ? 'Choose one.' : 'Fill this in.' } : {}
  switch (field.kind) {
    case 'choice':
      return { value: field.choices?.[Number(draft)] }
    case 'yesno':
      return { value: draft === 'true' }
    case 'list':
      return readList(field.schema, draft)
    case 'json':
      return readJSON(field, draft)
    default:
      return readScalar(field.schema, draft)
  }
}

function readScalar(schema: Schema, draft: string): Read {
  if (schema.type === 'string') {
    const wrong = textTrouble(schema, draft)
    return wrong ? { wrong } : { value: draft }
  }
  const value = Number(draft.trim())
  if (!/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(draft.trim()) || !Number.isFinite(value)) return { wrong: `“${draft.trim()}” is no number.` }
  const wrong = numberTrouble(schema, value)
  return wrong ? { wrong } : { value }
}

function textTrouble({ minLength, maxLength, pattern, format }: Schema, value: string): string | undefined {
  const length = Array.from(value).length
  const least = number(minLength) ?? 0
  const most = number(maxLength) ?? Infinity
  if (length < least) return `${least} characters at least.`
  if (length > most) return `${most} characters at most; this has ${length}.`
  if (format === 'abs-path' && !value.startsWith('/')) return 'A path must begin with /.'
  const form = text(pattern)
  return form && !matches(form, value) ? `It must have the form ${form}` : undefined
}

function matches(pattern: string, value: string): boolean {
  try {
    return new RegExp(pattern, 'u').test(value)
  } catch {
    return true // written for another reader: the control plane judges it
  }
}

function numberTrouble({ type, minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf }: Schema, value: number): string | undefined {
  if (type === 'integer' && !Number.isInteger(value)) return 'A whole number.'
  if (type === 'integer' && !Number.isSafeInteger(value)) return 'This number is too large to be sent exactly.'
  const bounds: [unknown, (bound: number) => boolean, string][] = [
    [minimum, (b) => value < b, 'at least'],
    [maximum, (b) => value > b, 'at most'],
    [exclusiveMinimum, (b) => value <= b, 'and more'],
    [exclusiveMaximum, (b) => value >= b, 'and less'],
  ]
  for (const [bound, crossed, words] of bounds) {
    const b = number(bound)
    if (b !== undefined && crossed(b)) return words.startsWith('and') ? `${words.slice(4)} than ${b}.` : `${b} ${words}.`
  }
  const step = number(multipleOf)
  return step && Math.abs(value / step - Math.round(value / step)) > 1e-9 ? `A multiple of ${step}.` : undefined
}

function readList(schema: Schema, draft: string): Read {
  const of = schema.items as Record<string, unknown>
  const item = fieldOf('', of, true)
  const lines = draft.split('\n').map((l) => l.trim()).filter((l) => l !== '')
  const values: unknown[] = []
  for (const line of lines) {
    const read = item.kind === 'choice' ? chosen(item, line) : readScalar(item.schema, line)
    if (read.wrong) return { wrong: `“${line}”: ${read.wrong}` }
    values.push(read.value)
  }
  const least = number(schema.minItems) ?? 0
  const most = number(schema.maxItems) ?? Infinity
  if (values.length < least) return { wrong: `${least} lines at least.` }
  if (values.length > most) return { wrong: `${most} lines at most; there are ${values.length}.` }
  const twice = schema.uniqueItems === true ? values.find((v, i) => values.indexOf(v) !== i) : undefined
  return twice !== undefined ? { wrong: `“${written(twice)}” is there twice.` } : { value: values }
}

function chosen(item: Field, line: string): Read {
  const value = item.choices?.find((c) => written(c) === line)
  return value === undefined ? { wrong: `choose of ${(item.choices ?? []).map(written).join(', ')}.` } : { value }
}

const kinds: Record<string, (v: unknown) => boolean> = {
  object: isObject,
  array: Array.isArray,
  string: (v) => typeof v === 'string',
  boolean: (v) => typeof v === 'boolean',
  null: (v) => v === null,
  number: (v) => typeof v === 'number',
  integer: (v) => Number.isInteger(v),
}

function readJSON(field: Field, draft: string): Read {
  let value: unknown
  try {
    value = JSON.parse(draft)
  } catch (error) {
    return { wrong: `This is not JSON: ${error instanceof Error ? error.message : String(error)}` }
  }
  const wanted = (Array.isArray(field.schema.type) ? field.schema.type : [field.schema.type]).filter((t): t is string => typeof t === 'string')
  if (wanted.length > 0 && !wanted.some((t) => kinds[t]?.(value) ?? true)) return { wrong: `It must be ${wanted.join(' or ')}.` }
  return { value }
}

/** inputsOf is what is sent, what is wrong by the name of each field, and whether it is all right. */
export function inputsOf(fields: Field[], draft: Draft): { inputs: Record<string, unknown>; wrong: Record<string, string>; ready: boolean } {
  const inputs: Record<string, unknown> = {}
  const wrong: Record<string, string> = {}
  for (const field of fields) {
    const read = readField(field, draft[field.name] ?? '')
    if (read.wrong) wrong[field.name] = read.wrong
    else if (field.name === whole && isObject(read.value)) Object.assign(inputs, read.value)
    else if (read.value !== undefined) inputs[field.name] = read.value
  }
  return { inputs, wrong, ready: Object.keys(wrong).length === 0 }
}
