import { expect, it } from 'vitest'
import { blocked, findings } from './preflight'

const names = new Set(['c07u43', 'c07u44'])

it('divides what a check found by machine', () => {
  const check = { name: 'power_credentials', ok: false, detail: 'c07u43: there are none; the host name c07u44 is in the inventory; and 3 more' }
  expect(findings(check, names)).toEqual([{ hostname: 'c07u43', text: 'there are none' }, { hostname: 'c07u44', text: 'the host name c07u44 is in the inventory' }, { text: 'and 3 more' }])
})

it('leaves what is well as it is', () => {
  expect(findings({ name: 'roce_rows', ok: true, detail: 'well-formed; there are none for c07u43' }, names)).toEqual([{ text: 'well-formed; there are none for c07u43' }])
})

it('gathers what blocks each machine over all checks', () => {
  const checks = [
    { name: 'a', ok: false, detail: 'c07u43: one' },
    { name: 'b', ok: false, detail: 'c07u43: two' },
    { name: 'c', ok: true, detail: 'c07u44: fine' },
  ]
  expect([...blocked(checks, names)]).toEqual([['c07u43', ['one', 'two']]])
})
