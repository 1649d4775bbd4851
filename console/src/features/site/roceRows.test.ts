import { describe, expect, it } from 'vitest'
import { isRight, mostRows, readRoce, refusedLines } from './roceRows'

const good = { hostname: 'c07u31', interface: 'enp28s0np0', ipv4_cidr: '172.30.9.61/31' }

describe('readRoce', () => {
  it('reads what comes from files, spreadsheets and terminals', () => {
    for (const mark of [',', ', ', ';', '\t', '  ']) {
      const { lines } = readRoce(['c07u31', 'enp28s0np0', '172.30.9.61/31', '9000'].join(mark))
      expect(lines).toEqual([{ line: 1, row: { ...good, mtu: 9000 }, wrong: {} }])
    }
  })

  it('takes the order of columns from a first line that names them', () => {
    const { lines } = readRoce('# from the network team\r\nmtu,ipv4_cidr,"Hostname",interface\r\n\r\n,172.30.9.61/31,C07U31,enp28s0np0\r\n')
    expect(lines).toEqual([{ line: 4, row: good, wrong: {} }])
  })

  it('refuses first lines that do not say enough', () => {
    expect(readRoce('hostname,interface,ipv4_cidr,colour\n').wrong).toContain('"colour"')
    expect(readRoce('hostname,interface\n').wrong).toContain('ipv4_cidr')
    expect(readRoce('hostname,interface,ipv4_cidr,hostname\n').wrong).toContain('twice')
  })

  it('points out each mistake at its line', () => {
    const { lines } = readRoce(
      [
        'c07u31,enp28s0np0,172.30.9.61/31',
        'c07u31,enp28s0np0,172.30.9.63/31',
        'c07u32,enp28s0np0,172.30.9.61/31',
        '-bad,toolonginterfacename,172.30.9.300/31,77',
        'c07u33,eth0,10.0.0.0/24',
        'c07u33,eth1,10.0.0.255/24',
        'c07u33,eth2',
        'c07u33,eth3,10.0.0.9/24,1500,more',
      ].join('\n'),
    )
    expect(lines.map((l) => l.wrong)).toEqual([
      {},
      { interface: 'is the interface of line 1 again' },
      { ipv4_cidr: 'is the address of line 1 again' },
      {
        hostname: expect.stringContaining('host name') as string,
        interface: expect.stringContaining('network interface') as string,
        ipv4_cidr: expect.stringContaining('IPv4') as string,
        mtu: '77 must be 1280 to 9216, or empty',
      },
      { ipv4_cidr: expect.stringContaining('address of the network') as string },
      { ipv4_cidr: expect.stringContaining('broadcast') as string },
      { ipv4_cidr: 'is missing' },
      { line: 'has 5 values; there are 4 columns' },
    ])
    expect(lines.filter(isRight)).toHaveLength(1)
  })

  it('does not take missing values for twins', () => {
    const { lines } = readRoce('a,,\nb,,')
    expect(lines.map((l) => l.wrong.interface)).toEqual(['is missing', 'is missing'])
    expect(lines.map((l) => l.wrong.ipv4_cidr)).toEqual(['is missing', 'is missing'])
  })

  it('says when there are too many for one request', () => {
    const text = Array.from({ length: mostRows + 1 }, (_, i) => `h${i},eth0,10.${i >> 8}.${i & 255}.1/24`).join('\n')
    expect(readRoce(text).wrong).toContain('5,001')
    expect(readRoce('').lines).toEqual([])
  })
})

describe('refusedLines', () => {
  it('puts what was refused at the line that it came from', () => {
    const { lines } = readRoce('hostname,interface,ipv4_cidr\na,eth0,10.0.0.1/24\n\nb,eth0,10.0.0.2/24\n')
    const refused = refusedLines(lines, { 'items[1].ipv4_cidr': 'belongs to c', 'items[9].mtu': 'nowhere', other: 'nothing' })
    expect(refused.map((l) => [l.line, l.wrong])).toEqual([
      [2, {}],
      [4, { ipv4_cidr: 'belongs to c' }],
    ])
    expect(lines.every(isRight)).toBe(true)
  })
})
