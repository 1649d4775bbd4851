import { Card, TextLink } from '../../ui/basics'
import { Table, type Column } from '../../ui/table'
import { hours, inWords, type Part } from './usage'

/** Parts are the sums by something, the dearest first. */
export function Parts({ title, parts, link }: { title: string; parts: Part[]; link?: (p: Part) => Record<string, string> }) {
  const columns: Column<Part>[] = [
    { key: 'name', title: title.replace(/^By /, '').replace(/^./, (c) => c.toUpperCase()), width: 'minmax(9rem,1fr)', cell: (p) => (link && p.key ? <TextLink to="/billing" search={link(p)}>{p.name}</TextLink> : p.name) },
    { key: 'hours', title: 'GPU hours', width: '7rem', align: 'right', cell: (p) => hours(p.unitSeconds) },
    { key: 'back', title: 'Compensated', width: 'minmax(7rem,0.6fr)', align: 'right', cell: (p) => inWords(p.back) },
    { key: 'net', title: 'Cost', width: 'minmax(8rem,0.8fr)', align: 'right', cell: (p) => <span title={inWords(p.net)}>{inWords(p.net)}</span> },
  ]
  return (
    <Card title={title}>
      <Table label={title} columns={columns} rows={parts} rowKey={(p) => p.key} />
    </Card>
  )
}
