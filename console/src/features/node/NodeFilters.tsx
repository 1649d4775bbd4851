import { useCallback } from 'react'
import { Button, Stat } from '../../ui/basics'
import { FilterText } from '../../ui/filtertext'
import { SelectField } from '../../ui/form'
import { agentCards, agentFilters, countOf, filters, groups, narrowed, statusesOf, toggled, type Summary } from './filters'

type Address = Record<string, string | undefined>
type Change = (patch: Address) => void

/** NodeCards counts the nodes that the other filters find, by state and by agent; a card is a filter too. */
export function NodeCards({ summary, agents, address, change }: { summary: Summary; agents: Summary['agents']; address: Address; change: Change }) {
  const now = statusesOf(address)
  return (
    <div className="flex flex-wrap gap-2">
      <Stat label="All states" value={summary.total.toLocaleString()} selected={now.length === 0} onSelect={() => change({ status: undefined })} />
      {groups.map((g) => {
        const n = countOf(summary, g.states)
        return <Stat key={g.key} label={g.title} value={n.toLocaleString()} tone={n > 0 && g.tone !== 'idle' ? g.tone : undefined} selected={now.length > 0 && toggled(address, g.states) === undefined} onSelect={() => change({ status: toggled(address, g.states) })} />
      })}
      {agentCards.map((c) => {
        const n = agents[c.agent]
        const selected = address.agent === c.agent
        return <Stat key={c.agent} label={c.label} value={n.toLocaleString()} tone={n > 0 ? c.tone : undefined} hint={c.hint} selected={selected} onSelect={() => change({ agent: selected ? undefined : c.agent })} />
      })}
    </div>
  )
}

const drifts = [
  { value: '', label: 'Any drift' },
  { value: 'in_sync', label: 'Current' },
  { value: 'version_drift', label: 'Outdated or unknown build' },
  { value: 'config_drift', label: 'Config drift' },
  { value: 'certificate_only_repair_needed', label: 'Cert repair' },
  { value: 'unknown', label: 'No agent yet' },
]

const states = [...groups.flatMap((g) => g.states), 'deleted']

/** NodeFilters narrows the table; all of it is in the address. */
export function NodeFilters({ all, address, change }: { all?: Summary; address: Address; change: Change }) {
  const search = useCallback((q: string) => change({ q }), [change])
  const version = useCallback((v: string) => change({ agent_version: v }), [change])
  const chosen = statusesOf(address)
  const status = chosen.length > 1 ? chosen.join(',') : (chosen[0] ?? '')
  const several = chosen.length > 1 ? [{ value: status, label: chosen.map((s) => s.replaceAll('_', ' ')).join(', ') }] : []
  return (
    <div className="grid grid-cols-2 items-start gap-3 sm:grid-cols-3 lg:grid-cols-6">
      <FilterText label="Search" placeholder="hostname, host or id" value={address.q ?? ''} onChange={search} />
      <SelectField label="State" value={status} onChange={(v) => change({ status: v })} options={[{ value: '', label: 'Any state' }, ...several, ...states]} />
      <SelectField label="SKU" value={address.sku ?? ''} onChange={(sku) => change({ sku })} options={[{ value: '', label: 'Any SKU' }, ...listed(all?.skus.map((s) => s.sku), address.sku)]} />
      <SelectField label="Region" value={address.region_code ?? ''} onChange={(v) => change({ region_code: v })} options={[{ value: '', label: 'Any region' }, ...listed(all?.regions.map((r) => r.region_code), address.region_code)]} />
      <SelectField label="Site" value={address.site_id ?? ''} onChange={(v) => change({ site_id: v })} options={[{ value: '', label: 'Any site' }, ...(all?.sites ?? []).map((s) => ({ value: s.site_id, label: s.name }))]} />
      <SelectField label="Agent" value={address.agent ?? ''} onChange={(v) => change({ agent: v })} options={[{ value: '', label: 'Any agent' }, ...agentCards.map((c) => ({ value: c.agent, label: c.label }))]} />
      <SelectField label="Agent drift" value={address.drift_state ?? ''} onChange={(v) => change({ drift_state: v })} options={drifts} />
      <FilterText label="Agent version" placeholder="any" value={address.agent_version ?? ''} onChange={version} />
      <SelectField label="Agent channel" value={address.agent_channel ?? ''} onChange={(v) => change({ agent_channel: v })} options={[{ value: '', label: 'Any channel' }, 'stable', 'candidate', 'pinned', 'unassigned']} />
      <SelectField label="Scheduling" value={address.schedulable ?? ''} onChange={(v) => change({ schedulable: v })} options={either('schedulable', 'not schedulable')} />
      <SelectField label="Hold" value={address.held ?? ''} onChange={(v) => change({ held: v })} options={either('held', 'not held')} />
      <SelectField label="Taint" value={address.tainted ?? ''} onChange={(v) => change({ tainted: v })} options={either('tainted', 'not tainted')} />
      <Button className="self-end" disabled={!narrowed(address)} onClick={() => change(Object.fromEntries([...filters, ...agentFilters].map((k) => [k, undefined])))}>
        Clear
      </Button>
    </div>
  )
}

function either(yes: string, no: string): { value: string; label: string }[] {
  return [
    { value: '', label: 'Any' },
    { value: 'true', label: yes },
    { value: 'false', label: no },
  ]
}

/** listed are the values to choose from, the chosen one always among them. */
function listed(known: string[] | undefined, chosen: string | undefined): { value: string; label: string }[] {
  return [...new Set([...(known ?? []), ...(chosen ? [chosen] : [])])].map((value) => ({ value, label: value }))
}
