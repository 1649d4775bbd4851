import type { Schemas } from '../../api/client'

/** mostMachines is how many machines one batch may have, by the contract. */
export const mostMachines = 1000

export type Machine = Schemas['OnboardingBatchMachineBody']

/** One row of what was pasted, with what is wrong with it. */
export type MachineRow = Machine & { line: number; problems: string[] }

export type Parsed = {
  rows: MachineRow[]
  /** What is wrong with the text as a whole, with its line. */
  problems: { line: number; text: string }[]
}

const columns = ['hostname', 'ipmi_ip']
const others = ['rack', 'pool', 'labels']

// People have such columns in their files: it is said where they belong.
const elsewhere: Record<string, string> = {
  pxe_mac: 'it is detected, not entered: remove the column',
  interface: 'RoCE addresses belong to the site: import them there',
  ipv4_cidr: 'RoCE addresses belong to the site: import them there',
  sku: 'one SKU applies to all machines: choose it above',
  sku_id: 'one SKU applies to all machines: choose it above',
  site: 'one site applies to all machines: choose it above',
  site_id: 'one site applies to all machines: choose it above',
  profile: 'one profile applies to all machines: choose it above',
  ipmi_user: 'BMC credentials belong to the site: set them there',
  ipmi_pass: 'BMC credentials belong to the site: set them there',
}

/**
 * parseMachines reads what was pasted or a CSV file, row by row. The first line may
 * name the columns; without it they are hostname and ipmi_ip. Lines that begin with
 * a # are passed over.
 */
export function parseMachines(text: string): Parsed {
  const lines = text
    .replace(/^\uFEFF/, '')
    .split(/\r\n|\r|\n/)
    .map((content, i) => ({ line: i + 1, content: content.trim() }))
    .filter(({ content }) => content !== '' && !content.startsWith('#'))
  const first = lines[0]
  if (!first) return { rows: [], problems: [] }
  const split = splitter(first.content)
  const names = split(first.content).map((n) => n.toLowerCase())
  const named = names.some((n) => columns.includes(n) || others.includes(n) || n in elsewhere || n.startsWith('roce'))
  const header = named ? readHeader(names, first.line) : { names: columns, problems: [] }
  if (header.problems.length > 0) return { rows: [], problems: header.problems }
  const seen = new Map<string, number>()
  const rows = lines.slice(named ? 1 : 0).map(({ line, content }) => readRow(split(content), line, header, seen))
  return { rows, problems: limits(rows, first.line, named) }
}

function limits(rows: MachineRow[], line: number, named: boolean): Parsed['problems'] {
  if (rows.length === 0 && named) return [{ line, text: 'there are columns but no rows: add a line for each machine' }]
  if (rows.length > mostMachines) return [{ line: rows[mostMachines]?.line ?? line, text: `there are ${rows.length} rows; split them into batches of at most ${mostMachines}` }]
  return []
}

// Commas, semicolons and tabs are how files divide columns; people type spaces.
function splitter(line: string): (l: string) => string[] {
  const divider = [',', ';', '\t'].find((d) => line.includes(d))
  return (l) => (divider ? l.split(divider) : l.split(/\s+/)).map((f) => unquoted(f.trim()))
}

function unquoted(field: string): string {
  return field.length > 1 && field.startsWith('"') && field.endsWith('"') ? field.slice(1, -1).replaceAll('""', '"').trim() : field
}

type Header = { names: string[]; problems: Parsed['problems'] }

function readHeader(names: string[], line: number): Header {
  const problems: Parsed['problems'] = []
  for (const [i, name] of names.entries()) {
    if (!columns.includes(name) && !others.includes(name)) {
      const hint = elsewhere[name.startsWith('roce') ? 'ipv4_cidr' : name] ?? 'only hostname, ipmi_ip, rack, pool and labels are'
      problems.push({ line, text: `the column ${name || `number ${i + 1}, which has no name,`} cannot be used: ${hint}` })
    } else if (names.indexOf(name) !== i) {
      problems.push({ line, text: `the column ${name} appears twice: remove one` })
    }
  }
  for (const name of columns) if (!names.includes(name)) problems.push({ line, text: `the column ${name} is missing: add it` })
  return { names, problems }
}

function readRow(fields: string[], line: number, { names }: Header, seen: Map<string, number>): MachineRow {
  const cell = (name: string) => fields[names.indexOf(name)] ?? ''
  const hostname = cell('hostname').toLowerCase()
  const given = cell('ipmi_ip')
  const problems: string[] = []
  const width = names.length
  if (fields.length !== width) problems.push(`has ${fields.length} ${fields.length === 1 ? 'column' : 'columns'}, not ${width}`)
  if (!isHostname(hostname)) problems.push(hostname === '' ? 'the host name is missing' : `${hostname} is not a host name: use letters, digits and hyphens`)
  const address = normalAddress(given)
  if (!address) problems.push(given === '' ? 'the BMC address (ipmi_ip) is missing' : `${given} is not an IP address`)
  else if (!isReachable(address)) problems.push(`${given} is not an address at which a BMC can be reached`)
  const ipmi_ip = address ?? given
  for (const value of [hostname, ipmi_ip]) {
    if (value === '') continue
    const before = seen.get(value)
    if (before !== undefined) problems.push(`${value} is already in line ${before}`)
    else seen.set(value, line)
  }
  return { hostname, ipmi_ip, ...grouping(cell, problems), line, problems }
}

// Labels are written key=value, several of them divided by spaces or semicolons.
function grouping(cell: (name: string) => string, problems: string[]): Pick<Machine, 'rack' | 'pool' | 'labels'> {
  const [rack, pool, written] = others.map(cell)
  const labels: Record<string, string> = {}
  for (const word of (written ?? '').split(/[;\s]+/).filter(Boolean)) {
    const at = word.indexOf('=')
    if (at < 1) problems.push(`the label ${word} must be key=value`)
    else labels[word.slice(0, at)] = word.slice(at + 1)
  }
  return { ...(rack && { rack }), ...(pool && { pool }), ...(Object.keys(labels).length > 0 && { labels }) }
}

const hostnameForm = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$/

export function isHostname(name: string): boolean {
  return name.length <= 253 && hostnameForm.test(name)
}

/** normalAddress is an IP address as it is written normally, or undefined. */
export function normalAddress(text: string): string | undefined {
  if (/^(0|[1-9]\d{0,2})(\.(0|[1-9]\d{0,2})){3}$/.test(text)) {
    return text.split('.').every((part) => Number(part) <= 255) ? text : undefined
  }
  if (!/^[0-9a-fA-F:.]+$/.test(text) || !text.includes(':')) return undefined
  try {
    const written = new URL(`http://[${text}]/`).hostname.slice(1, -1)
    const mapped = /^::ffff:([0-9a-f]{1,4}):([0-9a-f]{1,4})$/.exec(written)
    return mapped ? fourOf(`${mapped[1]}`, `${mapped[2]}`) : written
  } catch {
    return undefined
  }
}

function fourOf(high: string, low: string): string {
  const [h, l] = [parseInt(high, 16), parseInt(low, 16)]
  return [h >> 8, h & 255, l >> 8, l & 255].join('.')
}

function isReachable(address: string): boolean {
  if (address.includes(':')) return address !== '::' && address !== '::1' && !/^(ff|fe[89ab])/.test(address)
  const [a = 0, b = 0] = address.split('.').map(Number)
  return address !== '0.0.0.0' && address !== '255.255.255.255' && a !== 127 && !(a === 169 && b === 254) && (a < 224 || a > 239)
}

/** machinesOf are the machines of rows, as they are sent. */
export function machinesOf(rows: MachineRow[]): Machine[] {
  return rows.map(({ hostname, ipmi_ip, rack, pool, labels }) => ({ hostname, ipmi_ip, ...(rack && { rack }), ...(pool && { pool }), ...(labels && { labels }) }))
}

/** asText writes machines as they are pasted. */
export function asText(machines: Machine[]): string {
  const given = others.filter((name) => machines.some((m) => m[name as keyof Machine]))
  const labels = (m: Machine) => Object.entries(m.labels ?? {}).map(([key, value]) => `${key}=${value}`).join(';')
  const row = (m: Machine) => [m.hostname, m.ipmi_ip, ...given.map((name) => (name === 'labels' ? labels(m) : (m[name as 'rack' | 'pool'] ?? '')))]
  return [[...columns, ...given], ...machines.map(row)].map((cells) => cells.join(',')).join('\n')
}

/** plainLines is text with one kind of line end, which is how the browser counts characters of what it shows. */
export function plainLines(text: string): string {
  return text.replace(/\r\n?/g, '\n')
}

/** placeOf is where a line, counted from 1, begins and ends in plain text. */
export function placeOf(text: string, line: number): [from: number, to: number] {
  const lines = text.split('\n')
  const from = lines.slice(0, line - 1).reduce((n, l) => n + l.length + 1, 0)
  return [from, from + (lines[line - 1]?.length ?? 0)]
}

/** withoutLine is plain text without a line, counted from 1. */
export function withoutLine(text: string, line: number): string {
  return text.split('\n').filter((_, i) => i !== line - 1).join('\n')
}
