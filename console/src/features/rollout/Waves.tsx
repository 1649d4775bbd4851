import type { ReactNode } from 'react'
import { Card } from '../../ui/basics'
import { toneFill } from '../../ui/tone'
import { saysOf, toneOfOutcome, wavesOf, type Member } from './rollout'

/** Waves is nodes as squares, wave after wave. A square says its outcome in words when it is pointed at or read out. */
export function Waves({ members, told, chosen, onChoose }: { members: Member[]; /** Says of a wave how it stands. */ told: (wave: number) => ReactNode; chosen?: string; onChoose: (m: Member) => void }) {
  return (
    <div className="grid gap-4 lg:grid-cols-2">
      {wavesOf(members).map((w) => (
        <Card key={w.wave} title={<>{w.name} <span className="font-normal text-muted">· {told(w.wave)}</span></>}>
          <ul aria-label={w.name} className="flex flex-wrap gap-1.5">
            {w.members.map((m) => (
              <li key={m.node_id} className="flex">
                <button type="button" aria-label={saysOf(m)} title={saysOf(m)} aria-pressed={chosen === m.node_id} onClick={() => onChoose(m)} className={`size-6 rounded-sm hover:brightness-110 ${toneFill[toneOfOutcome(m.outcome)]} ${chosen === m.node_id ? 'ring-2 ring-accent ring-offset-1 ring-offset-surface' : ''} ${m.outcome === 'updating' || m.outcome === 'baking' ? 'animate-pulse' : ''}`} />
              </li>
            ))}
          </ul>
        </Card>
      ))}
    </div>
  )
}
