import { Facts } from '../../ui/basics'
import { words } from '../../ui/tone'
import { Expected, Spent } from './JobBoard'
import { actionTitle, isOver, type Job, type Stage } from './job'
import { StageBar } from './StageBar'

/** Standing is the first look at a job: how far it is, how long it has taken, and what comes next. */
export function Standing({ of, stages }: { of: Job; stages: Stage[] }) {
  const stage = stages.find((s) => s.name === of.current_stage)
  return (
    <div className="flex flex-wrap items-center gap-x-8 gap-y-2 rounded-lg border border-line bg-surface px-4 py-3 text-sm">
      <div className="min-w-56 flex-1">
        <StageBar status={of.status} gaps={of.outcome === 'with_gaps'} stage={of.current_stage} stages={stages} />
        <p className="mt-1">
          {of.stage_number > 0 ? `Stage ${of.stage_number} of ${of.stage_total}: ` : ''}
          {stage?.title ?? words(of.current_stage)}
        </p>
      </div>
      <Facts
        of={[
          ['Attempt', of.current_attempt || '–'],
          ['Elapsed', <Spent key="spent" row={of} />],
        ]}
      />
      <Facts
        of={[
          ['Time left', <Expected key="expected" row={of} stages={stages} />],
          ['Next', next(of)],
        ]}
      />
    </div>
  )
}

function next(of: Job): string {
  if (of.pending_action && !isOver(of.status)) return `requested: ${actionTitle(of.pending_action)}`
  if (of.recommended_action) return actionTitle(of.recommended_action)
  return isOver(of.status) ? '–' : 'continues automatically'
}
