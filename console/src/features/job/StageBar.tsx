import { memo } from 'react'
import { words } from '../../ui/tone'
import { standingOf, type Job, type Stage } from './job'
import { segments, type Segment } from './progress'

const looks: Record<Segment, string> = {
  done: 'bg-ok',
  current: 'bg-info',
  // What failed is also higher: colour alone does not tell it.
  failed: 'bg-bad h-full',
  stopped: 'bg-idle h-full',
  skipped: 'border border-ok/60',
  ahead: 'bg-idle-soft border border-line',
}

type Props = { status: Job['status']; gaps?: boolean; stage: string; stages: Stage[] }

/** StageBar shows how far a job is, one segment for each stage. */
export const StageBar = memo(function StageBar({ status, gaps, stage, stages }: Props) {
  const shown = segments({ status, current_stage: stage }, stages)
  const at = stages.find((s) => s.name === stage)
  const standing = words(standingOf({ status, outcome: gaps ? 'with_gaps' : undefined }))
  const place = at ? `stage ${at.number} of ${stages.length}, ${at.title}` : words(stage)
  return (
    <span role="img" aria-label={`${standing}: ${place}`} title={`${standing}: ${place}`} className="flex h-3.5 w-full min-w-24 items-center gap-px">
      {shown.map((s, i) => (
        <span key={stages[i]?.name} className={`h-2 flex-1 rounded-[1px] ${gaps && s === 'done' ? 'bg-warn' : looks[s]}`} />
      ))}
    </span>
  )
})

/** StageLegend says what the segments mean. */
export function StageLegend() {
  const entries: [Segment, string][] = [
    ['done', 'done'],
    ['current', 'in progress'],
    ['failed', 'failed here'],
    ['skipped', 'not needed'],
    ['ahead', 'not started yet'],
  ]
  return (
    <p className="flex flex-wrap items-center gap-x-4 gap-y-1 text-xs text-muted">
      {entries.map(([s, text]) => (
        <span key={s} className="inline-flex h-3.5 items-center gap-1.5">
          <span aria-hidden className={`h-2 w-3 rounded-[1px] ${looks[s]}`} /> {text}
        </span>
      ))}
    </p>
  )
}
