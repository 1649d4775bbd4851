import { describe, expect, it } from 'vitest'
import { choicesOf, draftOf, fieldsOf, inputsOf, readField, type Field } from './schema'

const object = (properties: Record<string, unknown>, required: string[] = []) => ({ type: 'object', additionalProperties: false, required, properties })
const one = (schema: unknown, required = false): Field => {
  const field = fieldsOf(object({ x: schema }, required ? ['x'] : []))[0]
  if (!field) throw new Error('there is no field')
  return field
}
const wrong = (schema: unknown, typed: string, required = false) => readField(one(schema, required), typed).wrong
const value = (schema: unknown, typed: string) => readField(one(schema), typed).value

describe('fieldsOf', () => {
  it('asks first for what is required, by its title, and says what a value must be', () => {
    const fields = fieldsOf(object({ port: { type: 'integer', minimum: 1, maximum: 65535, default: 8080 }, unit_name: { type: 'string', title: 'Unit', format: 'unit-name', maxLength: 200 } }, ['unit_name']))
    expect(fields.map((f) => [f.name, f.label, f.required, f.kind])).toEqual([
      ['unit_name', 'Unit', true, 'text'],
      ['port', 'port', false, 'number'],
    ])
    expect(fields[0]?.hint).toContain('nginx.service')
    expect(fields[1]?.hint).toBe('1 at least, 65535 at most. Empty: 8080.')
  })

  it('has a kind of field for every kind of value, and JSON for all others', () => {
    const kinds: [string, unknown][] = [
      ['text', { type: 'string', maxLength: 100 }],
      ['long', { type: 'string', maxLength: 32768 }],
      ['number', { type: 'number' }],
      ['yesno', { type: 'boolean' }],
      ['choice', { type: 'string', enum: ['a', 'b'] }],
      ['choice', { const: 5 }],
      ['list', { type: 'array', items: { type: 'string', maxLength: 10 } }],
      ['list', { type: 'array', items: { type: 'integer' } }],
      ['json', { type: 'array', items: { type: 'object' } }],
      ['json', { type: 'array', items: { type: 'boolean' } }],
      ['json', { type: 'array' }],
      ['json', { type: 'object' }],
      ['json', { type: ['string', 'null'] }],
      ['json', { anyOf: [{ type: 'string' }, { type: 'integer' }] }],
      ['json', { $ref: '#/$defs/x' }],
      ['json', true],
    ]
    for (const [kind, schema] of kinds) expect([schema, one(schema).kind]).toEqual([schema, kind])
  })

  it('makes one field of JSON of a schema that is more than a list of properties', () => {
    const fields = fieldsOf({ ...object({ a: { type: 'string' } }), oneOf: [{ required: ['a'] }] })
    expect(fields.map((f) => f.kind)).toEqual(['json'])
    expect(inputsOf(fields, { '': '{"a":"b"}' }).inputs).toEqual({ a: 'b' })
    expect(inputsOf(fields, { '': '[1]' }).wrong).toEqual({ '': 'It must be object.' })
    expect(inputsOf(fields, draftOf(fields))).toEqual({ inputs: {}, wrong: {}, ready: true })
  })

  it('has no field for what takes nothing', () => {
    expect(fieldsOf(object({}))).toEqual([])
    expect(fieldsOf({ type: 'object' })).toEqual([])
    expect(fieldsOf(undefined)).toEqual([])
  })
})

describe('inputsOf', () => {
  const fields = fieldsOf(
    object(
      {
        name: { type: 'string', maxLength: 20 },
        port: { type: 'integer', minimum: 1, maximum: 65535, default: 8080 },
        mode: { type: 'string', enum: ['0600', '0644'], default: '0644' },
        count: { type: 'integer', enum: [1, 2, 4] },
        force: { type: 'boolean', default: false },
        names: { type: 'array', items: { type: 'string' }, default: ['a', 'b'] },
        values: { type: 'object', default: { k: 1 } },
      },
      ['name'],
    ),
  )

  it('begins with the defaults, and sends them', () => {
    const draft = draftOf(fields)
    expect(inputsOf(fields, draft)).toMatchObject({ ready: false, wrong: { name: 'Fill this in.' } })
    expect(inputsOf(fields, { ...draft, name: 'web' })).toEqual({ ready: true, wrong: {}, inputs: { name: 'web', port: 8080, mode: '0644', force: false, names: ['a', 'b'], values: { k: 1 } } })
  })

  it('leaves out what is empty, and keeps the types of what is chosen', () => {
    const draft = { ...draftOf(fields), name: 'web', port: '', names: '', values: ' ', mode: '', force: 'true', count: '2' }
    expect(inputsOf(fields, draft).inputs).toEqual({ name: 'web', force: true, count: 4 })
    expect(choicesOf(fields.find((f) => f.name === 'count') ?? one({}))).toEqual([
      { value: '0', label: '1' },
      { value: '1', label: '2' },
      { value: '2', label: '4' },
    ])
  })

  it('begins with what an earlier run was given', () => {
    const draft = draftOf(fields, { name: 'db', port: 5432, mode: '0600', names: ['c'], values: { k: [2] } })
    expect(inputsOf(fields, draft).inputs).toEqual({ name: 'db', port: 5432, mode: '0600', force: false, names: ['c'], values: { k: [2] } })
  })
})

describe('readField', () => {
  it('judges numbers', () => {
    const port = { type: 'integer', minimum: 1, maximum: 65535 }
    expect(value(port, ' 80 ')).toBe(80)
    expect(wrong(port, '0')).toBe('1 at least.')
    expect(wrong(port, '65536')).toBe('65535 at most.')
    expect(wrong(port, '1.5')).toBe('A whole number.')
    expect(wrong(port, 'eighty')).toBe('“eighty” is no number.')
    expect(wrong(port, '0x10')).toBe('“0x10” is no number.')
    expect(wrong({ type: 'integer' }, '9007199254740993')).toContain('too large')
    expect(value({ type: 'number' }, '-1.5e3')).toBe(-1500)
    expect(wrong({ type: 'number', exclusiveMinimum: 0 }, '0')).toBe('more than 0.')
    expect(wrong({ type: 'number', exclusiveMaximum: 1 }, '1')).toBe('less than 1.')
    expect(wrong({ type: 'number', multipleOf: 0.1 }, '0.25')).toBe('A multiple of 0.1.')
    expect(value({ type: 'number', multipleOf: 0.1 }, '0.3')).toBe(0.3)
  })

  it('judges texts, and changes none', () => {
    expect(value({ type: 'string', maxLength: 20 }, ' a ')).toBe(' a ')
    expect(wrong({ type: 'string', minLength: 3 }, 'ab')).toBe('3 characters at least.')
    expect(wrong({ type: 'string', maxLength: 2 }, 'abc')).toBe('2 characters at most; this has 3.')
    expect(wrong({ type: 'string', maxLength: 1 }, '🦆')).toBeUndefined()
    expect(wrong({ type: 'string', pattern: '^[a-z]+$' }, 'A1')).toContain('^[a-z]+$')
    expect(wrong({ type: 'string', pattern: '(?P<other>readers)' }, 'x')).toBeUndefined()
    expect(wrong({ type: 'string', format: 'abs-path' }, 'etc')).toBe('A path must begin with /.')
  })

  it('reads lists line by line', () => {
    const names = { type: 'array', minItems: 1, maxItems: 2, uniqueItems: true, items: { type: 'string', maxLength: 3 } }
    expect(value(names, 'a\n\n b \n')).toEqual(['a', 'b'])
    expect(wrong(names, 'a\nb\nc')).toBe('2 lines at most; there are 3.')
    expect(wrong(names, 'a\na')).toBe('“a” is there twice.')
    expect(wrong(names, 'long')).toBe('“long”: 3 characters at most; this has 4.')
    expect(wrong(names, '', true)).toBe('Fill this in.')
    expect(value({ type: 'array', items: { type: 'integer' } }, '1\n2')).toEqual([1, 2])
    expect(wrong({ type: 'array', items: { type: 'integer' } }, '1\nx')).toBe('“x”: “x” is no number.')
    expect(value({ type: 'array', items: { type: 'string', enum: ['a', 'b'] } }, 'b')).toEqual(['b'])
    expect(wrong({ type: 'array', items: { type: 'string', enum: ['a', 'b'] } }, 'c')).toBe('“c”: choose of a, b.')
  })

  it('reads JSON, and says where it is none', () => {
    expect(value({ type: 'object' }, '{"a":[1]}')).toEqual({ a: [1] })
    expect(wrong({ type: 'object' }, '{a}')).toContain('not JSON')
    expect(wrong({ type: 'object' }, '[]')).toBe('It must be object.')
    expect(value({ type: ['string', 'null'] }, 'null')).toBeNull()
    expect(wrong({ type: ['string', 'null'] }, '1')).toBe('It must be string or null.')
    expect(value({}, '1')).toBe(1)
  })

  it('wants a choice where one is required', () => {
    expect(wrong({ type: 'boolean' }, '', true)).toBe('Choose one.')
    expect(wrong({ type: 'string', enum: ['a'] }, '', true)).toBe('Choose one.')
    expect(value({ type: 'boolean' }, 'false')).toBe(false)
  })
})
