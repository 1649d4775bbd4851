import { describe, expect, it } from 'vitest'
import { certificatesRule, cidrRule, each, hostnameRule, ifaceRule, intervalRule, ipRule, maasURLRule, macRule, nameRule, networkRule } from './rules'

const cases: [name: string, rule: (text: string) => string | undefined, right: string[], wrong: string[]][] = [
  ['nameRule', nameRule, ['lab', 'dc1-maas', 'a'], ['Lab', '-a', 'a-', 'a_b', 'a'.repeat(64)]],
  ['ifaceRule', ifaceRule, ['eno8303', 'enp28s0np0', 'bond0.46'], ['', '-eth0', 'eth0 ', 'toolonginterface']],
  ['hostnameRule', hostnameRule, ['c07u31', 'C07U31', 'a.b.example'], ['', 'a..b', '-a', 'a_b', `${'a'.repeat(250)}.abc`]],
  [
    'maasURLRule',
    maasURLRule,
    ['http://maas.example:5240/MAAS', 'https://10.0.0.7/MAAS/', 'http://maas.example', 'http://[fd00::1]:5240/MAAS/api/2.0/'],
    ['maas.example', 'ftp://maas.example/MAAS', 'http://root:pw@maas.example/MAAS', 'http://maas.example/MAAS?x=1', 'http://maas.example/other', 'http://maas.example:99999/MAAS'],
  ],
  ['ipRule', ipRule, ['1.1.1.1', 'fd00::1'], ['0.0.0.0', '224.0.0.1', '1.1.1', '1.1.1.256', '01.1.1.1', 'ff02::1', '::', 'maas.example', '1.1.1.1/8']],
  ['networkRule', networkRule, ['10.0.0.0/8', '10.1.2.3/32', 'fd00::/64', '0.0.0.0/0'], ['10.0.0.0', '10.0.0.0/33', 'fd00::/129', '10.0.0.0/08', '10.0.0.0/8/8']],
  ['cidrRule', cidrRule, ['172.30.9.61/31', '172.30.9.60/31', '10.0.0.1/24', '10.0.0.5/32'], ['172.30.9.61', '10.0.0.0/24', '10.0.0.255/24', '10.1.1.1/7', '127.0.0.1/8', '169.254.1.1/16', '224.0.0.1/24', '255.255.255.255/30', '10.0.0.1/33']],
  ['macRule', macRule, ['52:54:00:12:34:56', '52-54-00-12-34-56'], ['53:54:00:12:34:56', '00:00:00:00:00:00', '52:54:00:12:34', '52:54-00:12:34:56', '525400123456']],
  ['intervalRule', intervalRule, ['15m', '24h', '60s', '2 hours'], ['15', '59s', '25h', 'm15', '15 fortnights']],
  [
    'certificatesRule',
    certificatesRule,
    ['-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n', '-----BEGIN CERTIFICATE-----\nA\n-----END CERTIFICATE-----\n-----BEGIN CERTIFICATE-----\nB\n-----END CERTIFICATE-----'],
    ['MIIB', '-----BEGIN CERTIFICATE-----\nMIIB', '-----BEGIN PRIVATE KEY-----\nA\n-----END PRIVATE KEY-----', '-----BEGIN CERTIFICATE-----\nA\n-----END CERTIFICATE-----\nmore'],
  ],
]

describe.each(cases)('%s', (_, rule, right, wrong) => {
  it.each(right)('takes %j', (text) => expect(rule(text)).toBeUndefined())
  it.each(wrong)('refuses %j', (text) => expect(rule(text)).toBeTruthy())
})

describe('each', () => {
  it('names the value that breaks the rule', () => {
    const rule = each(networkRule, 2)
    expect(rule('10.0.0.0/8\n10.1.0.0/16')).toBeUndefined()
    expect(rule('10.0.0.0/8, nonsense')).toBe('nonsense must be a network such as 10.0.0.0/8')
    expect(rule('10.0.0.0/8 10.1.0.0/16 10.2.0.0/16')).toContain('at most 2')
  })
})
