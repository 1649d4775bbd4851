import { useCallback } from 'react'
import { Stat } from '../../ui/basics'
import { chips, Filters } from '../../ui/filters'
import { FilterText } from '../../ui/filtertext'
import { SelectField } from '../../ui/form'
import { words } from '../../ui/tone'
import { agentCards, agentFilters, countOf, filters, groups, statusesOf, toggled, type Summary } from './filters'

type Address = Record<string, string | undefined>
type Change = (patch: Address) => void

/** NodeCards counts the nodes that the other filters find, by state and by agent; a card is a filter too. */
export function NodeCards({ summary, agents, address, change }: { summary: Summary; agents: Summary['agents']; address: Address; change: Change }) {
  const now = statusesOf(address)
  return (
    <div className="flex gap-2 overflow-x-auto p-0.5 sm:flex-wrap">
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
  const several = chosen.length > 1 ? [{ value: status, label: chosen.map(words).join(', ') }] : []
  const choices: Choice[] = [
    { key: 'status', label: 'State', any: 'Any state', options: [...several, ...states] },
    { key: 'sku', label: 'SKU', any: 'Any SKU', options: listed(all?.skus.map((s) => s.sku), address.sku) },
    { key: 'region_code', label: 'Region', any: 'Any region', options: listed(all?.regions.map((r) => r.region_code), address.region_code) },
    { key: 'site_id', label: 'Site', any: 'Any site', options: (all?.sites ?? []).map((s) => ({ value: s.site_id, label: s.name })) },
    { key: 'agent', label: 'Agent', any: 'Any agent', options: agentCards.map((c) => ({ value: c.agent, label: c.label })) },
    { key: 'drift_state', label: 'Agent drift', any: 'Any drift', options: drifts },
    { key: 'agent_channel', label: 'Agent channel', any: 'Any channel', options: ['stable', 'candidate', 'pinned', 'unassigned'] },
    { key: 'schedulable', label: 'Scheduling', any: 'Any', options: either('schedulable', 'not schedulable') },
    { key: 'held', label: 'Hold', any: 'Any', options: either('held', 'not held') },
    { key: 'tainted', label: 'Taint', any: 'Any', options: either('tainted', 'not tainted') },
  ]
  const asked: Address = { ...address, status }
  return (
    <Filters
      active={chips(asked, change, [{ key: 'q', label: 'Search' }, ...choices, { key: 'agent_version', label: 'Agent version' }])}
      onClearAll={() => change(Object.fromEntries([...filters, ...agentFilters].map((k) => [k, undefined])))}
      more={
        <>
          {choices.map(({ key, label, any, options }) => (
            <SelectField key={key} label={label} value={asked[key] ?? ''} onChange={(v) => change({ [key]: v })} options={[{ value: '', label: any }, ...options]} />
          ))}
          <FilterText label="Agent version" placeholder="any" value={address.agent_version ?? ''} onChange={version} />
        </>
      }
    >
      <FilterText label="Search" placeholder="name, id, address, serial or MAC" value={address.q ?? ''} onChange={search} />
    </Filters>
  )
}

type Choice = { key: string; label: string; any: string; options: (string | { value: string; label: string })[] }

function either(yes: string, no: string): { value: string; label: string }[] {
  return [
    { value: 'true', label: yes },
    { value: 'false', label: no },
  ]
}

/** listed are the values to choose from, the chosen one always among them. */
function listed(known: string[] | undefined, chosen: string | undefined): { value: string; label: string }[] {
  return [...new Set([...(known ?? []), ...(chosen ? [chosen] : [])])].map((value) => ({ value, label: value }))
}
