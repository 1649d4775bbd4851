import { useNavigate } from '@tanstack/react-router'
import { useMemo } from 'react'
import { Table, type Column } from '../../ui/table'
import { toneText } from '../../ui/tone'
import { groups } from '../node/filters'
import { groupOf, parked, type Group } from './draw'
import { shared, type Hall, type Rack } from './racks'

type Row = Rack & { counts: Map<Group, number>; critical: number; warning: number; jobs: number; parked: number }

function rowOf(rack: Rack): Row {
  const row: Row = { ...rack, counts: new Map(), critical: 0, warning: 0, jobs: 0, parked: 0 }
  for (const spot of rack.spots) {
    const group = groupOf(spot.status)
    row.counts.set(group, (row.counts.get(group) ?? 0) + 1)
    if (spot.severity === 'critical') row.critical++
    if (spot.severity === 'warning') row.warning++
    if (spot.job) row.jobs++
    if (parked(spot)) row.parked++
  }
  return row
}

const count = (key: string, title: string, of: (row: Row) => number, tone = ''): Column<Row> => ({
  key,
  title,
  align: 'right',
  width: 'minmax(5.5rem, 1fr)',
  cell: (row) => <span className={of(row) === 0 ? 'text-muted' : `font-medium ${tone}`}>{of(row)}</span>,
})

const columns: Column<Row>[] = [
  { key: 'rack', title: 'Rack', width: 'minmax(10rem, 2fr)', cell: (row) => row.label },
  count('nodes', 'Nodes', (r) => r.spots.length),
  ...groups.map((g) => count(g.key, g.title, (r) => r.counts.get(g.key) ?? 0, g.tone === 'idle' ? '' : toneText[g.tone])),
  count('critical', 'Critical', (r) => r.critical, 'text-bad'),
  count('warning', 'Warnings', (r) => r.warning, 'text-warn'),
  count('jobs', 'Jobs', (r) => r.jobs, 'text-info'),
  count('parked', 'Parked', (r) => r.parked, 'text-bad'),
]

/** RackTable is the map in words: a row for each rack, which leads to its nodes. */
export function RackTable({ hall }: { hall: Hall }) {
  const navigate = useNavigate()
  const rows = useMemo(() => hall.racks.map(rowOf), [hall])
  const open = (row: Row) => {
    const search = { q: shared(row), site_id: hall.site?.site_id ?? '', region_code: hall.region }
    void navigate({ to: '/nodes', search: Object.fromEntries(Object.entries(search).filter(([, v]) => v)) })
  }
  return <Table label={`Racks of ${hall.site?.name ?? hall.region}`} columns={columns} rows={rows} rowKey={(r) => r.key} onOpen={open} />
}
