import { useMemo } from 'react'
import { useConnection } from '../../api/live'
import { useSearchState } from '../../app/location'
import { Button, Card, LinkButton, Loading, Note } from '../../ui/basics'
import { SelectField } from '../../ui/form'
import { ProblemNote } from '../../ui/problem'
import { exact } from '../../ui/time'
import type { Summary } from '../node/filters'
import type { Group } from './draw'
import { useFleetMap } from './fleet'
import { HallMap } from './HallMap'
import { Legend } from './Legend'
import { RackTable } from './RackTable'
import { halls, type Hall } from './racks'

/** FleetMap is every node of every site, by rack. */
export function FleetMap({ summary }: { summary?: Summary }) {
  const [address, setAddress] = useSearchState()
  const map = useFleetMap()
  const live = useConnection().state === 'live' && !map.error
  const all = useMemo(() => halls(map.data?.nodes ?? [], summary?.sites ?? []), [map.data, summary?.sites])
  const shown = useMemo(() => new Set((address.show ?? '').split(',').filter(Boolean)), [address.show])
  const asTable = address.view === 'table'
  const toggle = (g: Group) => setAddress({ show: [...(shown.has(g) ? [...shown].filter((s) => s !== g) : [...shown, g])].join(',') })
  const wanted = all.filter((h) => !address.hall || h.key === address.hall)
  if (map.isPending) return <Loading what="the map of the fleet" />
  if (map.error && !map.data) return <ProblemNote error={map.error} onRetry={() => void map.refetch()} />
  return (
    <section aria-label="Racks" className="flex flex-col gap-3">
      <div className="flex flex-wrap items-end justify-between gap-3">
        <h2 className="text-base font-semibold">Racks</h2>
        <div className="flex flex-wrap items-end gap-2">
          {all.length > 1 && (
            <SelectField label="Site" value={address.hall ?? ''} onChange={(hall) => setAddress({ hall })} options={[{ value: '', label: 'All sites' }, ...all.map((h) => ({ value: h.key, label: nameOf(h) }))]} />
          )}
          <Button onClick={() => setAddress({ view: asTable ? undefined : 'table' })}>{asTable ? 'Show tiles' : 'Show as table'}</Button>
        </div>
      </div>
      {map.error && <ProblemNote error={map.error} onRetry={() => void map.refetch()} />}
      {!asTable && <Legend summary={summary} shown={shown} onToggle={toggle} />}
      {map.data.truncated && <Note tone="warn" title="This is not the whole fleet">The map shows the first {map.data.nodes.length} nodes. To see the others, open the node list and filter it by site.</Note>}
      {wanted.map((h) => (
        <HallCard key={h.key} hall={h}>
          {h.total === 0 ? (
            <p className="text-sm text-muted">This site has no nodes yet. Onboard machines and they appear here.</p>
          ) : asTable ? (
            <RackTable hall={h} />
          ) : (
            <HallMap hall={h} shown={shown} onTable={() => setAddress({ view: 'table' })} />
          )}
        </HallCard>
      ))}
      <p className="text-xs text-muted">{live ? 'States update live. Findings and jobs are from' : 'Not updating. Everything is from'} {exact(map.data.as_of)}.</p>
    </section>
  )
}

const nameOf = (h: Hall) => `${h.site?.name ?? 'no site'} (${h.region})`

function HallCard({ hall, children }: { hall: Hall; children: React.ReactNode }) {
  const search = hall.site ? { site_id: hall.site.site_id } : { region_code: hall.region }
  return (
    <Card
      title={
        <>
          {hall.site?.name ?? 'No site'} <span className="font-normal text-muted">· region {hall.region} · {hall.total === 1 ? '1 node' : `${hall.total} nodes`}</span>
        </>
      }
      actions={
        <>
          {hall.site && (
            <LinkButton look="quiet" to="/sites/$siteId" params={{ siteId: hall.site.site_id }}>
              Site
            </LinkButton>
          )}
          <LinkButton look="quiet" to="/nodes" search={search}>
            Node list
          </LinkButton>
        </>
      }
    >
      {children}
    </Card>
  )
}
