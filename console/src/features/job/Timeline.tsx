import { useMemo, type ReactNode } from 'react'
import { Badge, Card } from '../../ui/basics'
import { exact, span, useNow, When } from '../../ui/time'
import { toneFill, type Tone } from '../../ui/tone'
import { actionTitle, isBusy, isParked, type Job, type LedgerEvent, type Stage } from './job'
import { steps, type Attempt, type Step } from './progress'
import { Who } from './Who'

const outcomes: Record<Attempt['outcome'], { tone: Tone; text: string }> = {
  running: { tone: 'info', text: 'in progress' },
  succeeded: { tone: 'ok', text: 'done' },
  failed: { tone: 'bad', text: 'failed' },
  skipped: { tone: 'idle', text: 'not needed' },
  compensated: { tone: 'idle', text: 'rolled back' },
}

type Props = { job: Pick<Job, 'status' | 'current_stage'>; stages: Stage[]; events: LedgerEvent[] }

/** Timeline is the way that a job went, stage by stage, and what lies ahead. */
export function Timeline({ job, stages, events }: Props) {
  const way = useMemo(() => steps(events), [events])
  const at = stages.findIndex((s) => s.name === job.current_stage)
  const goesOn = isBusy(job.status) || isParked(job.status) || job.status === 'pending'
  const last = way.at(-1)
  const begun = last?.kind === 'stage' && last.stage === job.current_stage
  const ahead = goesOn && job.status !== 'compensating' && at >= 0 ? stages.filter((s, i) => (begun ? i > at : i >= at) && !s.detour) : []
  return (
    <Card title="Stages">
      <ol className="flex flex-col">
        {way.map((step, i) => (
          <Entry key={i} step={step} before={way.slice(0, i)} stages={stages} goesOn={goesOn} />
        ))}
        {ahead.map((s) => (
          <Place key={s.name} tone={undefined}>
            <p className="text-sm text-muted" title={s.does}>
              <span className="tabular-nums">{s.number}</span> {s.title}
              {s.typical_seconds !== undefined ? <> · typically {lasting(s.typical_seconds)}</> : s.usually && <> · usually {s.usually}</>}
            </p>
          </Place>
        ))}
        {way.length === 0 && ahead.length === 0 && <li className="text-sm text-muted">Nothing has started yet.</li>}
      </ol>
    </Card>
  )
}

const lasting = (seconds: number) => (seconds < 1 ? 'under 1 s' : span(seconds))

function Place({ tone, children }: { tone?: Tone; children: ReactNode }) {
  return (
    <li className="relative border-l-2 border-line pb-3 pl-5 last:border-transparent last:pb-0">
      <span aria-hidden className={`absolute top-1 -left-[7px] size-3 rounded-full border-2 border-surface ${tone ? toneFill[tone] : 'bg-line'}`} />
      {children}
    </li>
  )
}

function Entry({ step, before, stages, goesOn }: { step: Step; before: Step[]; stages: Stage[]; goesOn: boolean }) {
  if (step.kind === 'action') return <Decision event={step.event} />
  const times = 1 + before.filter((b) => b.kind === 'stage' && b.stage === step.stage).length
  const stage = stages.find((s) => s.name === step.stage)
  const last = step.attempts.at(-1)
  if (!last) return null
  const outcome = last.outcome === 'running' && !goesOn ? { tone: 'idle' as Tone, text: 'not finished' } : waived(step.stage, last, before.at(-1)) ? { tone: 'warn' as Tone, text: 'skipped by an operator' } : outcomes[last.outcome]
  return (
    <Place tone={outcome.tone}>
      <p className="flex flex-wrap items-center gap-x-2 gap-y-1 text-sm">
        <span className="font-medium" title={stage?.does}>
          {stage && stage.number > 0 && <span className="font-normal text-muted tabular-nums">{stage.number} </span>}
          {stage?.title ?? step.stage.replaceAll('_', ' ')}
        </span>
        <Badge tone={outcome.tone}>{outcome.text}</Badge>
        {times > 1 && <span className="text-xs text-muted">run {times}</span>}
        {step.attempts.length > 1 && <span className="text-xs text-muted">{step.attempts.length} attempts</span>}
        <Duration attempts={step.attempts} typical={stage?.typical_seconds} goesOn={goesOn} />
      </p>
      {last.outcome === 'running' && goesOn && stage?.expects && <p className="text-xs text-muted">waiting until: {stage.expects}</p>}
      {step.attempts.map((a, i) => (
        <AttemptLines key={i} attempt={a} several={step.attempts.length > 1} goesOn={goesOn} />
      ))}
    </Place>
  )
}

// A stage is skipped also because operators decided to go on without it.
const waived = (stage: string, last: Attempt, before?: Step) => last.outcome === 'skipped' && before?.kind === 'action' && before.event.details?.override === stage

function Duration({ attempts, typical, goesOn }: { attempts: Attempt[]; typical?: number; goesOn: boolean }) {
  const now = useNow()
  const from = attempts[0]?.startedAt
  const to = attempts.at(-1)?.endedAt
  if (!from || (!to && !goesOn)) return null
  const took = ((to ? Date.parse(to) : now) - Date.parse(from)) / 1000
  const hint = `${exact(from)}${to ? ` to ${exact(to)}` : ''}${typical === undefined ? '' : `; typically ${span(typical)}`}`
  return (
    <span className="ml-auto text-xs text-muted tabular-nums" title={hint}>
      {lasting(took)}
      {!to && typical !== undefined && took > 2 * typical && took > typical + 30 && <span className="text-warn"> · typically {span(typical)}</span>}
    </span>
  )
}

function AttemptLines({ attempt, several, goesOn }: { attempt: Attempt; several: boolean; goesOn: boolean }) {
  const now = useNow()
  const lines = [...attempt.notes.map((n) => n.message ?? ''), attempt.message ?? ''].filter((t) => t !== '')
  // An observation that repeats itself is said once.
  const said = lines.filter((t, i) => lines.indexOf(t) === i)
  if (said.length === 0 && !several) return null
  return (
    <div className="mt-0.5 text-xs">
      {several && (
        <p className="text-muted">
          attempt {attempt.number}: {attempt.outcome === 'running' && !goesOn ? 'left' : outcomes[attempt.outcome].text}
          {attempt.startedAt && (attempt.endedAt ?? goesOn) && <> after {lasting(((attempt.endedAt ? Date.parse(attempt.endedAt) : now) - Date.parse(attempt.startedAt)) / 1000)}</>}
        </p>
      )}
      {said.map((t) => (
        <p key={t} className={`break-words ${attempt.outcome === 'failed' && t === attempt.message ? 'text-bad' : 'text-muted'}`}>
          {t}
        </p>
      ))}
    </div>
  )
}

function Decision({ event }: { event: LedgerEvent }) {
  const action = event.details?.override ? 'continue_without_the_stage' : event.details?.action
  const actor = event.details?.actor
  return (
    <Place tone="accent">
      <p className="text-sm">
        <Badge tone="accent">operator</Badge> <span className="font-medium first-letter:uppercase">{typeof action === 'string' ? actionTitle(action) : 'acted'}</span>
        {typeof actor === 'string' && (
          <span className="text-muted">
            {' '}
            by <Who id={actor} />
          </span>
        )}{' '}
        <span className="text-xs text-muted">
          <When at={event.occurred_at} />
        </span>
      </p>
      {event.message && <p className="text-xs text-muted">“{event.message}”</p>}
    </Place>
  )
}
