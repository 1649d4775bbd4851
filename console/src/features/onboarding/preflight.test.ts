import { expect, it } from 'vitest'
import { blocked, findings, wholePreflight } from './preflight'

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

it('looks at every machine, part by part, and forgets nothing that an earlier part found', async () => {
  const parts = [
    { ok: false, checks: [{ name: 'sku', ok: true, detail: 'x' }, { name: 'machines_in_maas', ok: false, detail: 'in MAAS, c07u43 is Deployed', remedy: 'leave it' }], machines: 120, looked_at: 100, next_machine: 100 },
    { ok: true, checks: [{ name: 'machines_in_maas', ok: true, detail: 'machines 101 to 120 of 120: MAAS has all 20' }], machines: 120, looked_at: 120 },
  ]
  const asked: number[] = []
  const told: string[] = []
  const found = await wholePreflight((from) => Promise.resolve(parts[asked.push(from) - 1] ?? Promise.reject(new Error('no such part'))), (done, of) => told.push(`${done} of ${of}`))
  expect(asked).toEqual([0, 100])
  expect(told).toEqual(['100 of 120'])
  expect(found.ok).toBe(false)
  expect(found.checks.map((c) => [c.name, c.ok])).toEqual([['sku', true], ['machines_in_maas', false]])
})
