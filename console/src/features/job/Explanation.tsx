import type { ReactNode } from 'react'
import { Badge, Card, Code, Facts } from '../../ui/basics'
import { exact, useNow, between, When } from '../../ui/time'
import { toneSoft, toneOf, words } from '../../ui/tone'
import { useTemporalUI } from './lookups'
import { isOver, isParked, type Job, type JobDetail } from './job'

/** Explanation says how a job stands in words: what it waits for, what was seen, and what to do first. */
export function Explanation({ of: { explanation: of, failure, observed } }: { of: JobDetail }) {
  const lines: [string, ReactNode][] = []
  if (of.expected) lines.push(['Waiting for', of.expected])
  if (of.observed) lines.push(['Observed', <Since key="seen" text={of.observed} since={of.observed_since} until={observed.at} />])
  if (of.waiting_since) lines.push([isOver(of.status) ? 'Ended' : 'Since', <Moment key="since" at={of.waiting_since} />])
  // What was seen usually ends with what went wrong: that is said once.
  if (failure && !of.observed.includes(failure.error_message)) lines.push(['What went wrong', failure.error_message])
  if (of.likely_cause) lines.push(['Likely cause', of.likely_cause])
  if (of.remedy) lines.push(['What to do first', <strong key="remedy" className="font-semibold">{of.remedy}</strong>])
  // The control plane writes so what reached its goal with less than was asked for.
  const fell = isOver(of.status) && of.summary.includes('LESS')
  return (
    <section aria-label="Current state" className="overflow-hidden rounded-lg border border-line bg-surface">
      <p role={isParked(of.status) ? 'alert' : 'status'} className={`px-4 py-3 text-sm font-medium ${toneSoft[fell ? 'warn' : toneOf('job', of.status)]}`}>
        {of.summary}
      </p>
      <div className="p-4">
        <Facts of={lines} />
        {failure && (
          <p className="mt-3 flex flex-wrap items-center gap-2 text-xs text-muted">
            <Badge tone="bad">{words(failure.failure_class)}</Badge> <Code>{failure.error_code}</Code>
          </p>
        )}
      </div>
    </section>
  )
}

// What was seen is known to have lasted until the last look, not until now.
function Since({ text, since, until }: { text: string; since?: string; until?: string }) {
  const now = useNow()
  return (
    <>
      {text}
      {since && (
        <span className="text-muted" title={exact(since)}>
          {' '}
          (unchanged in MAAS for {between(since, until, now)}
          {until && <>, checked <When at={until} /></>})
        </span>
      )}
    </>
  )
}

function Moment({ at }: { at: string }) {
  return (
    <>
      <When at={at} exactly /> <span className="text-muted">(<When at={at} />)</span>
    </>
  )
}

/** Observed is the machine as MAAS last showed it, and how old that is. */
export function Observed({ of }: { of: Job['observed'] }) {
  return (
    <Card title="Seen in MAAS">
      <Facts
        of={[
          ['Status', of.maas_status ? <Badge key="s">{of.maas_status}</Badge> : of.at ? 'MAAS has no such machine' : 'not checked yet'],
          ['Since', of.since && <Moment key="since" at={of.since} />],
          ['Power', of.maas_power],
          ['Addresses', of.maas_ips.length > 0 ? of.maas_ips.map((ip) => <Code key={ip}>{ip}</Code>) : ''],
          ['As of', <When key="at" at={of.at} />],
        ]}
      />
    </Card>
  )
}

const namespaceOfProduct = 'gpuaas'

/** WorkflowLink leads to the workflow in the web interface of Temporal, where there is one. */
export function WorkflowLink({ id }: { id: string }) {
  const ui = useTemporalUI()
  if (!ui) return <Code>{id}</Code>
  const base = ui.replace(/\/+$/, '')
  const within = base.includes('/namespaces/') ? base : `${base}/namespaces/${namespaceOfProduct}`
  return (
    <a href={`${within}/workflows/${encodeURIComponent(id)}`} target="_blank" rel="noreferrer" className="text-accent break-all underline-offset-2 hover:underline">
      {id} <span className="sr-only">(in Temporal, opens a new tab)</span>
    </a>
  )
}

/** Diagnostics is what programs know: for whoever looks deeper. */
export function Diagnostics({ title, of }: { title: string; of: unknown }) {
  if (of === undefined || of === null || (typeof of === 'object' && Object.keys(of).length === 0)) return null
  return (
    <details className="rounded-lg border border-line bg-surface">
      <summary className="px-4 py-2.5 text-sm font-semibold">{title}</summary>
      <div className="px-4 pb-4">
        <Code block>{JSON.stringify(of, null, 2)}</Code>
      </div>
    </details>
  )
}
