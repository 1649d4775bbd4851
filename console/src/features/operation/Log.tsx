import { useEffect, useRef, useState } from 'react'
import { Refusal } from '../../api/client'
import { usePages } from '../../api/pages'
import { useSearchState } from '../../app/location'
import { Badge, Button, Loading, Note } from '../../ui/basics'
import { FilterText } from '../../ui/filtertext'
import { CheckField, SelectField } from '../../ui/form'
import { ProblemNote } from '../../ui/problem'
import { exact } from '../../ui/time'
import { useFollowed } from './follow'
import { keepLines } from './lines'
import { hasEnded, type Line, type Run } from './operation'
import { listLines, listTargets, runsKey, type Where, type Wish } from './queries'

type Props = { where: Where; run: Run; defined?: { id: string; title?: string }[] }

/** Log is what the steps of a run print: it is followed while the run goes on, searched, and narrowed to a node or a step. */
export function Log({ where, run, defined }: Props) {
  const [search, change] = useSearchState()
  const ended = hasEnded(run)
  // It begins as the run stands when the page is opened; then whoever looks decides.
  const [follow, setFollow] = useState(!ended)
  const targets = usePages([...runsKey, 'one', run.operation_id, where.projectId, 'targets'], (cursor) => listTargets(where, run.operation_id, cursor))
  const wish: Wish = { target: search.target, step_id: search.step, q: search.q }
  return (
    <div className="flex flex-col gap-3">
      <div className="grid items-end gap-3 sm:grid-cols-2 lg:grid-cols-4">
        <FilterText label="Search" value={search.q ?? ''} onChange={(q) => change({ q })} hint="Only lines that hold this text." />
        <SelectField label="Step" value={search.step ?? ''} onChange={(step) => change({ step })} hint="What one step printed." options={[{ value: '', label: 'all steps' }, ...(defined ?? []).map((s) => ({ value: s.id, label: s.title ?? s.id }))]} />
        <SelectField label="Node" value={search.target ?? ''} onChange={(target) => change({ target })} hint="What one node printed." options={[{ value: '', label: 'all nodes' }, ...targets.rows.map((t) => ({ value: t.target_id, label: t.hostname }))]} />
        <div className="pb-6">
          <CheckField label="Follow" value={follow} onChange={setFollow} hint="Lines appear as they come." />
        </div>
      </div>
      {targets.error && <ProblemNote error={targets.error} onRetry={targets.retry} />}
      {follow ? <Followed where={where} run={run} wish={wish} /> : <Read where={where} run={run} wish={wish} />}
    </div>
  )
}

type Part = { where: Where; run: Run; wish: Wish }

function Followed({ where, run, wish }: Part) {
  const f = useFollowed(where, run.operation_id, wish, true)
  const standing = { connecting: 'Connecting …', following: 'Following: lines appear as they come.', lost: 'The connection was lost. Reconnecting from the last line.', ended: `The run has ended: ${f.ended ?? ''}. This is the complete log.`, refused: 'The log cannot be followed.' }[f.state]
  return (
    <>
      {f.problem && <ProblemNote error={new Refusal(f.problem)} />}
      <p role="status" className="flex flex-wrap items-center gap-2 text-sm text-muted">
        <Badge tone={f.state === 'following' ? 'ok' : f.state === 'lost' || f.state === 'refused' ? 'warn' : 'idle'}>{f.state}</Badge> {standing}
      </p>
      {f.dropped > 0 && <Note title={`Only the newest ${keepLines} lines are shown`}>{f.dropped} older ones are not. Narrow the log, or read it without following it.</Note>}
      <Lines lines={f.lines.map((h) => ({ key: h.id, line: h.line }))} nothing={f.state === 'ended' ? undefined : 'Nothing was printed yet.'} stick />
    </>
  )
}

function Read({ where, run, wish }: Part) {
  const pages = usePages([...runsKey, 'log', run.operation_id, where.projectId, wish], (cursor) => listLines(where, run.operation_id, wish, cursor))
  if (pages.loading) return <Loading what="the log" />
  return (
    <>
      {pages.error && <ProblemNote error={pages.error} onRetry={pages.retry} />}
      <Lines lines={pages.rows.map((line) => ({ key: `${line.target_id} ${line.seq} ${line.at}`, line }))} />
      {pages.hasMore && (
        <Button className="self-start" disabled={!pages.more} onClick={pages.more}>
          Load more
        </Button>
      )}
    </>
  )
}

const clock = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' })

function Lines({ lines, nothing = 'There are no lines here.', stick }: { lines: { key: string; line: Line }[]; nothing?: string; stick?: boolean }) {
  const box = useRef<HTMLDivElement>(null)
  const atEnd = useRef(true)
  useEffect(() => {
    // Whoever scrolled up to read is left there.
    if (stick && atEnd.current && box.current) box.current.scrollTop = box.current.scrollHeight
  }, [lines, stick])
  const scrolled = () => {
    const b = box.current
    if (b) atEnd.current = b.scrollHeight - b.scrollTop - b.clientHeight < 40
  }
  return (
    // eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- what scrolls has to be reachable by keyboard
    <div ref={box} role="log" aria-label="Log of the run" aria-live="off" tabIndex={0} onScroll={scrolled} className="max-h-[65vh] min-h-40 overflow-auto rounded-lg border border-line bg-surface p-2 font-mono text-xs">
      {lines.length === 0 && <p className="p-2 font-sans text-sm text-muted">{nothing}</p>}
      {lines.map(({ key, line }) => (
        <div key={key} className="flex gap-3 px-1 py-px [contain-intrinsic-size:auto_1rem] [content-visibility:auto] hover:bg-raised">
          <time dateTime={line.at} title={exact(line.at)} className="shrink-0 text-muted tabular-nums">
            {clock.format(new Date(line.at))}
          </time>
          <span className="w-28 shrink-0 truncate text-muted" title={line.hostname}>{line.hostname}</span>
          <span className="w-24 shrink-0 truncate text-info" title={line.step_id}>{line.step_id}</span>
          <span className={`min-w-0 flex-1 whitespace-pre-wrap [overflow-wrap:anywhere] ${line.stream === 'stderr' ? 'text-warn' : line.stream === 'agent' ? 'text-muted' : ''}`}>
            {line.stream === 'stderr' && <span className="sr-only">error output: </span>}
            {line.text}
          </span>
        </div>
      ))}
    </div>
  )
}
