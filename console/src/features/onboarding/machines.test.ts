import { describe, expect, it } from 'vitest'
import { asText, mostMachines, normalAddress, parseMachines, placeOf, plainLines, withoutLine } from './machines'

const problemsOf = (text: string) => {
  const { rows, problems } = parseMachines(text)
  return [...problems.map((p) => `${p.line}: ${p.text}`), ...rows.flatMap((r) => r.problems.map((p) => `${r.line}: ${p}`))]
}

describe('rack, pool and labels', () => {
  const text = 'hostname,ipmi_ip,rack,labels\nc07u43,10.176.16.128,c07,fabric=ib0;psu=2n\nc07u44,10.176.16.129,,'

  it('are read from columns of their own, and written back', () => {
    const { rows, problems } = parseMachines(text)
    expect(problems).toEqual([])
    expect(rows[0]).toMatchObject({ hostname: 'c07u43', rack: 'c07', labels: { fabric: 'ib0', psu: '2n' }, problems: [] })
    expect(rows[1]).not.toHaveProperty('rack')
    expect(asText(rows)).toBe(text)
  })

  it('are refused when a label has no value', () => {
    expect(parseMachines('hostname,ipmi_ip,labels\nc07u43,10.176.16.128,fabric').rows[0]?.problems).toEqual(['the label fabric must be key=value'])
  })
})

describe('parseMachines', () => {
  it.each([
    ['a CSV file with names of columns in any order', 'ipmi_ip,hostname\n10.0.0.1,C07U43\n'],
    ['without names of columns', 'c07u43,10.0.0.1'],
    ['from a spreadsheet', 'hostname\tipmi_ip\r\nc07u43\t10.0.0.1\r\n'],
    ['typed with spaces', 'c07u43   10.0.0.1'],
    ['with semicolons, quotes, a byte order mark and remarks', '\uFEFFhostname;ipmi_ip\n# row 7\n\n"c07u43" ; "10.0.0.1"'],
  ])('%s', (_, text) => {
    expect(parseMachines(text)).toMatchObject({ problems: [], rows: [{ hostname: 'c07u43', ipmi_ip: '10.0.0.1', problems: [] }] })
  })

  it('names the line of everything that is wrong, counting remarks and empty lines', () => {
    expect(problemsOf('hostname,ipmi_ip\n\n# here\nc07_43,10.0.0.1\nc07u44,10.0.0.256\nc07u45\n,10.0.0.3\nc07u46,127.0.0.1')).toEqual([
      '4: c07_43 is not a host name: use letters, digits and hyphens',
      '5: 10.0.0.256 is not an IP address',
      '6: has 1 column, not 2',
      '6: the BMC address (ipmi_ip) is missing',
      '7: the host name is missing',
      '8: 127.0.0.1 is not an address at which a BMC can be reached',
    ])
  })

  it('finds names and addresses that are there twice, however they are written', () => {
    expect(problemsOf('a,10.0.0.1\nA,10.0.0.2\nb,::ffff:10.0.0.1\nc,2001:db8::1\nd,2001:0db8:0:0::1')).toEqual(['2: a is already in line 1', '3: 10.0.0.1 is already in line 1', '5: 2001:db8::1 is already in line 4'])
  })

  it('says where columns belong that cannot be used here', () => {
    expect(problemsOf('hostname,ipmi_ip,pxe_mac,sku\na,10.0.0.1,aa:bb,x')).toEqual(['1: the column pxe_mac cannot be used: it is detected, not entered: remove the column', '1: the column sku cannot be used: one SKU applies to all machines: choose it above'])
    expect(problemsOf('hostname,sku\na,b')).toContain('1: the column ipmi_ip is missing: add it')
    expect(problemsOf('hostname,hostname,ipmi_ip\na,a,10.0.0.1')).toEqual(['1: the column hostname appears twice: remove one'])
  })

  it('takes no more than a batch may have', () => {
    const many = Array.from({ length: mostMachines + 1 }, (_, i) => `n${i},10.0.${i >> 8}.${i & 255}`)
    expect(problemsOf(many.slice(1).join('\n'))).toEqual([])
    expect(problemsOf(many.join('\n'))).toEqual(['1001: there are 1001 rows; split them into batches of at most 1000'])
  })

  it('reads what it wrote', () => {
    const machines = [{ hostname: 'c07u43', ipmi_ip: '10.0.0.1' }]
    expect(parseMachines(asText(machines)).rows).toMatchObject(machines)
  })

  it('has nothing to say about nothing, and asks for rows below columns', () => {
    expect(parseMachines(' \n# only a remark')).toEqual({ rows: [], problems: [] })
    expect(problemsOf('hostname,ipmi_ip')).toEqual(['1: there are columns but no rows: add a line for each machine'])
  })
})

it.each([
  ['10.0.0.1', '10.0.0.1'],
  ['2001:DB8::0001', '2001:db8::1'],
  ['::ffff:10.0.0.1', '10.0.0.1'],
  ['010.0.0.1', undefined],
  ['10.0.0', undefined],
  ['fe80::1%eth0', undefined],
  ['1', undefined],
  ['host', undefined],
])('normalAddress(%s)', (text, expected) => {
  expect(normalAddress(text)).toBe(expected)
})

it.each([
  ['of Windows', '\r\n'],
  ['of old files', '\r'],
  ['of everything else', '\n'],
])('finds and removes lines whatever ends them: %s', (_, end) => {
  const text = plainLines(['a,10.0.0.1', 'b,10.0.0.2', 'c,10.0.0.3', ''].join(end))
  const line = parseMachines(text).rows[1]?.line ?? 0
  expect(text.slice(...placeOf(text, line))).toBe('b,10.0.0.2')
  expect(withoutLine(text, line)).toBe('a,10.0.0.1\nc,10.0.0.3\n')
})
