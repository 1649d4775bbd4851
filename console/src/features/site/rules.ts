import { split, type Rule } from './explained'

// The same rules as the control plane's, so that a mistake is seen while it is made.
// What is let through here by mistake is refused there.

const name = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/
const iface = /^[A-Za-z0-9][A-Za-z0-9._-]{0,14}$/
const account = /^[a-z_][a-z0-9_-]{0,31}$/

const form =
  (pattern: RegExp, message: string): Rule =>
  (text) =>
    pattern.test(text) ? undefined : message

export const nameRule = form(name, 'must be 1 to 63 lower-case letters, digits and inner hyphens')
export const ifaceRule = form(iface, 'must be the name of a network interface: 1 to 15 letters, digits, dots, hyphens and underscores')
export const accountRule = form(account, 'must be the name of a Linux account')
export const imageRule = form(/^[A-Za-z0-9._+-]{1,80}(\/[A-Za-z0-9._+-]{1,80})?$/, 'must be system/series, such as ubuntu/noble, or the name of an image')
export const architectureRule = form(/^[a-z0-9]+\/[a-z0-9.+-]+$/, 'must be of the form amd64/generic')
export const bundleRule = form(/^[!-~]{0,500}$/, 'must be visible ASCII characters without spaces')

export const hostnameRule: Rule = (text) => {
  if (text.length > 253) return 'must be at most 253 characters'
  return text.toLowerCase().split('.').every((label) => name.test(label)) ? undefined : 'must be a host name: letters, digits and inner hyphens, parts divided by dots'
}

export const maasURLRule: Rule = (text) => {
  if (!/^https?:\/\//i.test(text)) return 'must begin with http:// or https://'
  if (/[?#]/.test(text)) return 'must not hold a query or a fragment'
  if (!URL.canParse(text)) return 'must be a URL such as http://maas.example:5240/MAAS'
  const url = new URL(text)
  if (url.username || url.password || text.includes('@')) return 'must not hold credentials'
  const path = url.pathname.replace(/\/+$/, '').replace(/\/api\/2\.0$/, '').replace(/\/+$/, '')
  return path === '' || path.endsWith('/MAAS') ? undefined : 'must end in /MAAS'
}

/** ipv4 is an address as a number, or nothing when the text is none. */
export function ipv4(text: string): number | undefined {
  const parts = /^(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})$/.exec(text)
  if (!parts) return undefined
  let out = 0
  for (const part of parts.slice(1)) {
    if (Number(part) > 255 || (part.length > 1 && part.startsWith('0'))) return undefined
    out = out * 256 + Number(part)
  }
  return out
}

// The browser knows what an IPv6 address is.
const ipv6 = (text: string) => text.includes(':') && /^[0-9a-f:.]+$/i.test(text) && URL.canParse(`http://[${text}]/`)

export const ipRule: Rule = (text) => {
  const v4 = ipv4(text)
  const ofOneHost = v4 === undefined ? ipv6(text) && !/^(::|ff.*)$/i.test(text) : v4 !== 0 && v4 >>> 28 !== 14
  return ofOneHost ? undefined : 'must be an IP address of one host, such as 10.0.0.7'
}

export const networkRule: Rule = (text) => {
  const [address = '', bits = ''] = text.split('/')
  const most = ipv4(address) !== undefined ? 32 : ipv6(address) ? 128 : -1
  return /^(0|[1-9]\d{0,2})$/.test(bits) && Number(bits) <= most && text.split('/').length === 2 ? undefined : 'must be a network such as 10.0.0.0/8'
}

/** cidrRule is for the address of one interface with the size of its network. */
export const cidrRule: Rule = (text) => {
  const [address = '', bits = '', more] = text.split('/')
  const at = ipv4(address)
  if (at === undefined || more !== undefined || !/^(0|[1-9]\d?)$/.test(bits) || Number(bits) > 32) return 'must be an IPv4 address with prefix length, such as 172.30.9.61/31'
  const size = Number(bits)
  if (size < 8) return 'must be in a network of /8 or smaller'
  if (at === 0 || at >>> 28 === 14 || at >>> 24 === 127 || at >>> 16 === 0xa9fe) return 'must be an address that a host can have'
  if (size >= 31) return undefined
  const hosts = 2 ** (32 - size)
  if (at % hosts === 0) return 'is the address of the network, not of a host in it'
  return at % hosts === hosts - 1 ? 'is the broadcast address of the network' : undefined
}

export const macRule: Rule = (text) => {
  const mac = /^([0-9a-f]{2})([:-])[0-9a-f]{2}(\2[0-9a-f]{2}){4}$/i.exec(text)
  const single = mac && Number.parseInt(mac[1] ?? '', 16) % 2 === 0 && /[1-9a-f]/i.test(text)
  return single ? undefined : 'must be a MAC address of one interface, such as 52:54:00:12:34:56'
}

const seconds: Record<string, number> = { h: 3600, hr: 3600, hour: 3600, hours: 3600, m: 60, min: 60, minute: 60, minutes: 60, s: 1, sec: 1, second: 1, seconds: 1 }

export const intervalRule: Rule = (text) => {
  const [, n = '', unit = ''] = /^(\d{1,6})\s*([a-z]+)$/.exec(text) ?? []
  const long = Number(n) * (seconds[unit] ?? 0)
  if (!long) return 'must be a number and a unit (h, m or s), such as 15m'
  return long < 60 || long > 86400 ? 'must be between 1m and 24h' : undefined
}

export const certificatesRule: Rule = (text) => {
  const blocks = text.match(/-----BEGIN [A-Z0-9 ]+-----[\s\S]*?-----END [A-Z0-9 ]+-----/g) ?? []
  const other = blocks.map((b) => /-----BEGIN ([A-Z0-9 ]+)-----/.exec(b)?.[1] ?? '').find((kind) => kind !== 'CERTIFICATE')
  if (other) return `holds a ${other.toLowerCase()} where only certificates belong`
  const rest = blocks.reduce((left, block) => left.replace(block, ''), text)
  return blocks.length > 0 && rest.trim() === '' ? undefined : 'must be certificates in PEM, beginning with -----BEGIN CERTIFICATE-----'
}

/** each holds every value of a list against a rule, and names the value that breaks it. */
export const each =
  (rule: Rule, most = Infinity): Rule =>
  (text) => {
    const values = split(text)
    if (values.length > most) return `must be at most ${most} values`
    for (const value of values) {
      const wrong = rule(value)
      if (wrong) return `${value} ${wrong}`
    }
    return undefined
  }
