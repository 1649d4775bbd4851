import { useQuery } from '@tanstack/react-query'
import { useCallback, useState } from 'react'
import { api, got, type Schemas } from '../../api/client'
import { jobPath } from '../../api/jobs'
import { useSearchState } from '../../app/location'
import { useMay } from '../../app/session'
import { Badge, Empty, State, TextLink } from '../../ui/basics'
import { SelectField } from '../../ui/form'
import { ProblemNote } from '../../ui/problem'
import { Table, type Column } from '../../ui/table'
import { When } from '../../ui/time'
import { words, type Tone } from '../../ui/tone'
import { RowButton } from '../../ui/rowbutton'
import { FilterText } from '../../ui/filtertext'
import type { Site } from '../site/siteQueries'
import { HappenDialog, HealDialog } from './HappenDialog'
import { freeMachines, happeningsQuery, type LabMachine } from './lab'

type Spot = Schemas['FleetviewSpot']

const views: Record<string, [label: string, shown: (m: LabMachine, node: Spot | undefined, taken: ReadonlySet<string>) => boolean]> = {
  all: ['all', () => true],
  free: ['free', (m, _, taken) => freeMachines([m], taken).length > 0],
  nodes: ['nodes', (_, node) => !!node],
  faults: ['with faults', (m) => m.faults.length > 0 || ailing(m)],
}

const ailing = (m: LabMachine) => /fail|broken/i.test(m.status)

/** Machines of the lab as its MAAS shows them now, and what can be let happen to them. */
export function Machines({ machines, taken, site, readAt }: { machines: LabMachine[]; taken: ReadonlySet<string>; site?: Site; readAt: number }) {
  const may = useMay()
  const [search, change] = useSearchState()
  const find = useCallback((q: string) => change({ q }), [change])
  const [asked, setAsked] = useState<{ what: 'happen' | 'heal'; machine: string }>()
  const map = useQuery({
    queryKey: ['fleet', 'lab-nodes', site?.site_id],
    queryFn: () => got(api.GET('/api/v1/admin/fleet/map', { params: { query: { site_id: site?.site_id } } })),
    enabled: !!site && may('node:read'),
  })
  const happenings = useQuery(happeningsQuery)
  const nodes = new Map(map.data?.nodes.map((n) => [n.hostname, n]))
  const label = (what: string) => happenings.data?.find((h) => h.what === what)?.label ?? what
  const [, shown] = views[search.show ?? 'all'] ?? views.all ?? ['', () => true]
  const q = (search.q ?? '').toLowerCase()
  const rows = machines.filter((m) => m.hostname.includes(q) && shown(m, nodes.get(m.hostname), taken))
  return (
    <>
      <div className="flex flex-wrap items-end gap-3">
        <FilterText label="Host name" value={search.q ?? ''} onChange={find} />
        <SelectField label="Show" value={search.show ?? 'all'} onChange={(v) => change({ show: v === 'all' ? undefined : v })} options={Object.entries(views).map(([value, [l]]) => ({ value, label: l }))} />
        <p className="ml-auto text-xs text-muted">
          {rows.length} of {machines.length} machines, as of <When at={new Date(readAt).toISOString()} />
        </p>
      </div>
      {map.error && <ProblemNote error={map.error} onRetry={() => void map.refetch()} />}
      <Table label="Machines" columns={columnsFor(nodes, label, setAsked)} rows={rows} rowKey={(m) => m.system_id} empty={<Empty title="No machine is like that" />} />
      {asked?.what === 'happen' && <HappenDialog machine={asked.machine} onClose={() => setAsked(undefined)} />}
      {asked?.what === 'heal' && <HealDialog machine={asked.machine} onClose={() => setAsked(undefined)} />}
    </>
  )
}

function statusTone(m: LabMachine): Tone {
  if (ailing(m)) return 'bad'
  if (m.status === 'Deployed') return 'ok'
  return /ing$/.test(m.status) ? 'info' : 'idle'
}

function columnsFor(nodes: Map<string, Spot>, label: (what: string) => string, ask: (a: { what: 'happen' | 'heal'; machine: string }) => void): Column<LabMachine>[] {
  return [
    { key: 'hostname', title: 'Machine', width: '7.5rem', cell: (m) => <span className="font-medium">{m.hostname}</span> },
    { key: 'status', title: 'Status in MAAS', width: '9.5rem', cell: (m) => <Badge tone={statusTone(m)}>{m.status}</Badge> },
    { key: 'power', title: 'Power', width: '4.5rem', cell: (m) => m.power },
    { key: 'addresses', title: 'Address', width: '7.5rem', cell: (m) => <span className="font-mono text-xs">{m.addresses.join(', ') || '–'}</span> },
    { key: 'bmc', title: 'BMC', width: '7.5rem', cell: (m) => <span className="font-mono text-xs">{m.bmc || '–'}</span> },
    { key: 'node', title: 'Node', width: 'minmax(15rem, 1.6fr)', cell: (m) => <NodeOf spot={nodes.get(m.hostname)} /> },
    {
      key: 'faults',
      title: 'Faults',
      width: 'minmax(8rem, 1fr)',
      cell: (m) => (
        <span className="flex gap-1">
          {m.faults.map((f) => (
            <Badge key={f} tone="warn">
              {label(f)}
            </Badge>
          ))}
        </span>
      ),
    },
    {
      key: 'actions',
      title: 'Actions',
      width: '13.5rem',
      cell: (m) => (
        <span className="-ml-1.5 flex">
          <RowButton text="Let something happen" label={`Let something happen to ${m.hostname}`} onClick={() => ask({ what: 'happen', machine: m.hostname })} />
          {(m.faults.length > 0 || ailing(m)) && <RowButton text="Heal" label={`Heal ${m.hostname}`} onClick={() => ask({ what: 'heal', machine: m.hostname })} />}
        </span>
      ),
    },
  ]
}

function NodeOf({ spot }: { spot?: Spot }) {
  if (!spot) return <span className="text-muted">–</span>
  return (
    <span className="flex items-center gap-2">
      <TextLink to="/nodes/$nodeId" params={{ nodeId: spot.node_id }}>
        {spot.hostname}
      </TextLink>
      <State of="node" is={spot.status} />
      {spot.job && <TextLink to={jobPath({ kind: spot.job.kind, id: spot.job.job_id })}>{words(spot.job.status)}</TextLink>}
    </span>
  )
}
