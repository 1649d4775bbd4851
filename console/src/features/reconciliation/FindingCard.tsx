import { useState, type ReactNode } from 'react'
import { useMay } from '../../app/session'
import { Badge, Button, Code, State, TextLink } from '../../ui/basics'
import { Elapsed, When } from '../../ui/time'
import { toneOf, toneText, words } from '../../ui/tone'
import { Acknowledge } from './Acknowledge'
import { actionOf, oftenIs, ordinal, resolutionIn, subjectOf, type Finding, type Resolution } from './findings'

const edges: Record<string, string> = { bad: 'border-l-bad', warn: 'border-l-warn', info: 'border-l-info' }

/** FindingCard is all that is known about a finding: what happened, what it means, what was done and what to do. */
export function FindingCard({ finding: f, ofNode, advised }: { finding: Finding; /** On the page of its node, which need not be named. */ ofNode?: boolean; /** The page gives the same advice already. */ advised?: boolean }) {
  const [more, setMore] = useState(false)
  const action = actionOf(f)
  return (
    <article aria-label={`${f.title}: ${subjectOf(f)}`} className={`rounded-lg border border-l-4 border-line bg-surface px-4 py-3 ${edges[toneOf('severity', f.severity)] ?? 'border-l-idle'}`}>
      <header className="flex flex-wrap items-center gap-x-2 gap-y-1">
        <State of="severity" is={f.severity} />
        <h3 className="text-sm font-semibold">{f.title}</h3>
        {!ofNode && <Subject finding={f} />}
        <FindingStatus finding={f} />
        {f.occurrence >= 2 && (
          <Badge tone={f.occurrence >= oftenIs ? 'warn' : 'idle'} title="How often this kind was found here within a month">
            {ordinal(f.occurrence)} time within a month
          </Badge>
        )}
        {f.acknowledged_at && <Badge tone="info">acknowledged</Badge>}
        <span className="ml-auto text-xs text-muted">
          for <Elapsed from={f.opened_at} to={f.closed_at} />
        </span>
      </header>
      <p className="mt-1.5 text-sm">{f.message}</p>
      <dl className="mt-2 flex flex-wrap gap-x-8 gap-y-1 text-sm">
        <Pair name="Observed">{f.observed}</Pair>
        <Pair name="Expected">{f.expected}</Pair>
      </dl>
      <p className={`mt-2 text-sm ${toneText[action.tone]}`}>
        {action.text} {action.at && <When at={action.at} />}
      </p>
      {more && <More finding={f} advised={advised} />}
      <footer className="mt-2 flex flex-wrap gap-2">
        <Button look="quiet" className="-ml-3" aria-expanded={more} onClick={() => setMore(!more)}>
          {more ? 'Less' : advised ? 'What it means' : 'What it means and what to do'}
        </Button>
        <Deeds finding={f} ofNode={ofNode} />
      </footer>
    </article>
  )
}

function Subject({ finding: f }: { finding: Finding }) {
  return (
    <span className="text-sm">
      {f.node_id ? <TextLink to={`/drift/${f.node_id}`}>{subjectOf(f)}</TextLink> : subjectOf(f)}
      {(f.node_id ?? f.maas_system_id) && <span className="text-muted"> in {f.site_name}</span>}
    </span>
  )
}

function FindingStatus({ finding: f }: { finding: Finding }) {
  if (f.status === 'closed') return <Badge tone="ok">closed</Badge>
  if (f.status === 'open') return <Badge title="One check has shown it; a second one confirms it.">seen once</Badge>
  return <Badge tone={f.status === 'acted' ? 'ok' : 'warn'}>{words(f.status)}</Badge>
}

function Deeds({ finding: f, ofNode }: { finding: Finding; ofNode?: boolean }) {
  const may = useMay()
  const [asked, setAsked] = useState(false)
  if (!may('reconciliation:manage') || f.status === 'closed') return null
  return (
    <>
      {!f.acknowledged_at && <Button onClick={() => setAsked(true)}>Acknowledge …</Button>}
      {f.node_id && !ofNode && (
        <TextLink to={`/drift/${f.node_id}`}>
          <span className="inline-block py-1.5 text-sm">Open this node under Drift</span>
        </TextLink>
      )}
      {asked && <Acknowledge finding={f} onClose={() => setAsked(false)} />}
    </>
  )
}

function More({ finding: f, advised }: { finding: Finding; advised?: boolean }) {
  return (
    <div className="mt-2 flex flex-col gap-2 border-t border-line pt-2 text-sm">
      <p>
        <span className="text-muted">Meaning: </span>
        {f.means}
      </p>
      {f.advice.length > 0 && !advised && <Advice of={f.advice} nodeId={f.node_id} />}
      <dl className="grid gap-x-6 gap-y-1 sm:grid-cols-2">
        <Pair name="Seen">
          {f.looks} {f.looks === 1 ? 'time' : 'times'}, last <When at={f.last_seen_at} />
        </Pair>
        {f.confirmed_at && (
          <Pair name="Confirmed">
            <When at={f.confirmed_at} />
          </Pair>
        )}
        {f.acknowledged_at && (
          <Pair name="Acknowledged">
            <When at={f.acknowledged_at} />: {f.acknowledgement}
          </Pair>
        )}
        {f.closed_at && (
          <Pair name="Closed">
            <When at={f.closed_at} />
            {f.closed_because && `: ${f.closed_because}`}
          </Pair>
        )}
        <Pair name="Kind">
          <Code>{f.type}</Code>
        </Pair>
        {f.maas_system_id && (
          <Pair name="MAAS machine">
            <Code>{f.maas_system_id}</Code>
          </Pair>
        )}
      </dl>
      {f.details && Object.keys(f.details).length > 0 && <Code block>{JSON.stringify(f.details, null, 2)}</Code>}
    </div>
  )
}

function Pair({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div className="flex min-w-0 gap-2">
      <dt className="shrink-0 text-muted">{name}</dt>
      <dd className="min-w-0 break-words">{children}</dd>
    </div>
  )
}

/** Advice is what an operator does best now, the best first. What this page shows anyway is left out. */
export function Advice({ of, nodeId, onResolve }: { of: Finding['advice']; nodeId?: string; /** Decides here; absent: the page of the node does. */ onResolve?: (resolution: Resolution) => void }) {
  const steps = of.filter((a) => !a.command?.startsWith('gpuaas drift show '))
  if (steps.length === 0) return null
  return (
    <div className="text-sm">
      <p className="text-muted">What to do, best option first:</p>
      <ol className="flex list-decimal flex-col gap-1 pl-5">
        {steps.map((a) => (
          <li key={a.what} className="first-letter:uppercase">
            {a.what} {a.command && <Here command={a.command} nodeId={nodeId} onResolve={onResolve} />}
          </li>
        ))}
      </ol>
    </div>
  )
}

/** Here leads to where the console does what a command does; the command itself where it does not. */
function Here({ command, nodeId, onResolve }: { command: string; nodeId?: string; onResolve?: (resolution: Resolution) => void }) {
  const may = useMay()
  const mode = /^gpuaas decommission start .*--mode (\w+)/.exec(command)?.[1]
  const resolution = resolutionIn(command)
  if (mode && nodeId) {
    return (
      <TextLink to="/decommissions" search={{ plan: nodeId, mode }}>
        Plan it here
      </TextLink>
    )
  }
  if (resolution && nodeId && !onResolve) return <TextLink to={`/drift/${nodeId}`}>Open this node under Drift</TextLink>
  if (resolution && onResolve && may('reconciliation:manage')) {
    return (
      <button type="button" className="text-accent underline" onClick={() => onResolve(resolution)}>
        Decide here
      </button>
    )
  }
  return <Code>{command}</Code>
}
