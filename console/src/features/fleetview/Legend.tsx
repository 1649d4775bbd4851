import type { Summary } from '../node/filters'
import { countOf, groups } from '../node/filters'
import { toneFill } from '../../ui/tone'
import type { Group } from './draw'

/** Legend says what the map's colours and shapes mean; a state that is chosen stands out on the map. */
export function Legend({ summary, shown, onToggle }: { summary?: Summary; shown: ReadonlySet<Group>; onToggle: (g: Group) => void }) {
  return (
    <div className="flex flex-wrap items-center gap-x-5 gap-y-2 text-xs">
      <div role="group" aria-label="Show only" className="flex flex-wrap gap-1.5">
        {groups.map((g) => {
          const key = g.key
          return (
            <button key={key} type="button" aria-pressed={shown.has(key)} onClick={() => onToggle(key)} className={`inline-flex items-center gap-1.5 rounded-md border px-2 py-1 hover:bg-raised ${shown.has(key) ? 'border-accent ring-1 ring-accent' : 'border-line'}`}>
              <span aria-hidden className={`size-3 ${toneFill[g.tone]}`} />
              {g.title}
              {summary && <span className="text-muted tabular-nums">{countOf(summary, g.states).toLocaleString()}</span>}
            </button>
          )
        })}
      </div>
      <ul aria-label="Shapes" className="flex flex-wrap gap-x-4 gap-y-1 text-muted">
        <Shape title="critical finding" kind="cross" />
        <Shape title="warning" kind="dot" />
        <Shape title="job in progress" kind="hollow" />
        <Shape title="job parked" kind="core" />
      </ul>
    </div>
  )
}

function Shape({ title, kind }: { title: string; kind: 'cross' | 'dot' | 'hollow' | 'core' }) {
  const filled = kind === 'cross' || kind === 'dot'
  return (
    <li className="inline-flex items-center gap-1.5">
      <svg aria-hidden viewBox="0 0 12 12" className="size-3">
        <rect x="0.75" y="0.75" width="10.5" height="10.5" strokeWidth="1.5" className={filled ? 'fill-idle stroke-idle' : 'fill-none stroke-idle'} />
        {kind === 'cross' && <path d="M3 3 L9 9 M9 3 L3 9" strokeWidth="1.5" className="stroke-surface" />}
        {kind === 'dot' && <circle cx="6" cy="6" r="2" className="fill-surface" />}
        {kind === 'core' && <rect x="4" y="4" width="4" height="4" className="fill-idle" />}
      </svg>
      {title}
    </li>
  )
}
