import { useNavigate } from '@tanstack/react-router'
import { useMemo } from 'react'
import { Table, type Column } from '../../ui/table'
import { groupOf, parked, type Group } from './draw'
import { shared, type Hall, type Rack } from './racks'

type Row = Rack & { counts: Record<Group, number>; critical: number; warning: number; jobs: number; parked: number }

function rowOf(rack: Rack): Row {
  const row: Row = { ...rack, counts: { active: 0, offline: 0, quarantined: 0, in_progress: 0, retired: 0 }, critical: 0, warning: 0, jobs: 0, parked: 0 }
  for (const spot of rack.spots) {
    row.counts[groupOf(spot.status)]++
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
  count('active', 'Active', (r) => r.counts.active, 'text-ok'),
  count('offline', 'Offline', (r) => r.counts.offline, 'text-bad'),
  count('quarantined', 'Quarantined', (r) => r.counts.quarantined, 'text-warn'),
  count('in_progress', 'In progress', (r) => r.counts.in_progress, 'text-info'),
  count('retired', 'Retired', (r) => r.counts.retired),
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
