import type { Schemas } from '../../api/client'
import { cidrRule, hostnameRule, ifaceRule } from './rules'

type Row = Schemas['SiteAssignmentRow']
type Field = keyof Row

/** A line of what was pasted: the row that it makes, and what is wrong with it. */
export type RoceLine = { line: number; row: Row; wrong: Partial<Record<Field | 'line', string>> }

export type RoceRows = { lines: RoceLine[]; /** What is wrong with the whole. */ wrong?: string }

/** mostRows is how many rows one request may hold. */
export const mostRows = 5000

const columns: Field[] = ['hostname', 'interface', 'ipv4_cidr', 'mtu']
const isColumn = (name: string): name is Field => (columns as string[]).includes(name)

/**
 * readRoce reads rows of addresses as they come from a file or a spreadsheet: with
 * commas, semicolons, tabs or spaces between. A first line may name the columns, in
 * any order; without it the order is hostname, interface, ipv4_cidr, mtu. Empty lines
 * and those that begin with # are passed over.
 */
export function readRoce(text: string): RoceRows {
  const rows = text
    .split(/\r\n|\n|\r/)
    .map((content, i) => ({ line: i + 1, content: content.trim() }))
    .filter(({ content }) => content !== '' && !content.startsWith('#'))
    .map(({ line, content }) => ({ line, cells: cells(content) }))
  const first = rows[0]
  if (!first) return { lines: [] }
  const titles = first.cells.map((c) => c.toLowerCase())
  const named = titles.some(isColumn)
  const order = named ? titles : columns
  if (named) rows.shift()
  const wrong = named ? wrongTitles(titles) : undefined
  if (wrong) return { lines: [], wrong }
  if (rows.length > mostRows) return { lines: [], wrong: `There are ${rows.length.toLocaleString('en')} rows; one import takes ${mostRows.toLocaleString('en')} at most. Import them in parts.` }
  return { lines: withoutTwins(rows.map(({ line, cells: values }) => readLine(line, values, order))) }
}

function wrongTitles(titles: string[]): string | undefined {
  const strange = titles.find((t) => !isColumn(t))
  if (strange !== undefined) return `The first line names a column "${strange}" that is not known. The columns are ${columns.join(', ')}.`
  const twice = titles.find((t, i) => titles.indexOf(t) !== i)
  if (twice) return `The first line names the column ${twice} twice.`
  const missing = columns.find((c) => c !== 'mtu' && !titles.includes(c))
  return missing && `The first line names no column ${missing}. It is needed.`
}

// A spreadsheet puts tabs between cells, a file commas or semicolons, a terminal spaces.
function cells(content: string): string[] {
  const mark = ['\t', ',', ';'].find((m) => content.includes(m))
  const parts = mark ? content.split(mark) : content.split(/\s+/)
  return parts.map((p) => p.trim().replace(/^"(.*)"$/, '$1').trim())
}

function readLine(line: number, values: string[], order: string[]): RoceLine {
  const cell = (field: Field) => values[order.indexOf(field)] ?? ''
  const row: Row = { hostname: cell('hostname').toLowerCase(), interface: cell('interface'), ipv4_cidr: cell('ipv4_cidr') }
  const wrong: RoceLine['wrong'] = {}
  if (values.length > order.length) wrong.line = `has ${values.length} values; there are ${order.length} columns`
  const rules = { hostname: hostnameRule, interface: ifaceRule, ipv4_cidr: cidrRule }
  for (const field of ['hostname', 'interface', 'ipv4_cidr'] as const) {
    const problem = row[field] === '' ? 'is missing' : rules[field](row[field])
    if (problem) wrong[field] = problem
  }
  const mtu = cell('mtu')
  if (mtu !== '' && mtu !== '0') {
    row.mtu = Number(mtu)
    if (!/^\d{1,5}$/.test(mtu) || row.mtu < 1280 || row.mtu > 9216) wrong.mtu = `${mtu} must be 1280 to 9216, or empty`
  }
  return { line, row, wrong }
}

function withoutTwins(lines: RoceLine[]): RoceLine[] {
  const interfaces = new Map<string, number>()
  const addresses = new Map<string, number>()
  for (const { line, row, wrong } of lines) {
    const name = `${row.hostname} ${row.interface}`
    const address = row.ipv4_cidr.split('/')[0] ?? ''
    const sameInterface = interfaces.get(name)
    const sameAddress = addresses.get(address)
    if (sameInterface !== undefined) wrong.interface ??= `is the interface of line ${sameInterface} again`
    else if (row.hostname && row.interface) interfaces.set(name, line)
    if (sameAddress !== undefined) wrong.ipv4_cidr ??= `is the address of line ${sameAddress} again`
    else if (address) addresses.set(address, line)
  }
  return lines
}

/** isRight says whether a line can be sent. */
export function isRight(l: RoceLine): boolean {
  return Object.keys(l.wrong).length === 0
}

/**
 * refusedLines adds to each line what the control plane found wrong with its row:
 * errors name rows by their place in the request.
 */
export function refusedLines(lines: RoceLine[], fields: Record<string, string>): RoceLine[] {
  const out = lines.map((l) => ({ ...l, wrong: { ...l.wrong } }))
  for (const [path, message] of Object.entries(fields)) {
    const [, index = '', field = ''] = /^items\[(\d+)\](?:\.(\w+))?$/.exec(path) ?? []
    const hit = index === '' ? undefined : out[Number(index)]
    if (hit) hit.wrong[isColumn(field) ? field : 'line'] = message
  }
  return out
}
