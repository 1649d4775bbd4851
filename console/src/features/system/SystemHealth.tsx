import { useQuery } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { api, got, type Schemas } from '../../api/client'
import { useSearchState } from '../../app/location'
import { useMay, type Permission } from '../../app/session'
import { Badge, Card, Loading, Note, Page } from '../../ui/basics'
import { ProblemNote } from '../../ui/problem'
import { Tabs } from '../../ui/tabs'
import { span, When } from '../../ui/time'
import { words } from '../../ui/tone'
import { DeadLetters } from './DeadLetters'
import { Lifecycles } from './Lifecycles'
import { SelfChecks } from './SelfChecks'

/** SystemHealth says whether the control plane itself works, and what waits. */
export default function SystemHealth() {
  const may = useMay()
  const [search, change] = useSearchState()
  const tabs: { key: string; title: string; body: () => ReactNode; needs?: Permission }[] = [
    { key: 'health', title: 'Health', body: () => <Health /> },
    { key: 'self-checks', title: 'Self-checks', body: () => <SelfChecks />, needs: 'self_check:read' },
    { key: 'lifecycles', title: 'Lifecycles', body: () => <Lifecycles />, needs: 'lifecycle:read' },
  ]
  const shown = tabs.filter((t) => !t.needs || may(t.needs))
  return (
    <Page title="System health" lead="The control plane itself: what it depends on, what waits to be delivered, and who works.">
      <Tabs label="System" tabs={shown} shown={search.tab ?? 'health'} onShow={(tab) => change({ tab: tab === 'health' ? undefined : tab, noun: undefined })} />
    </Page>
  )
}

function Health() {
  const may = useMay()
  const status = useQuery({ queryKey: ['system'], queryFn: () => got(api.GET('/api/v1/admin/system')), refetchInterval: 5_000 })
  if (status.error && !status.data) return <ProblemNote error={status.error} onRetry={() => void status.refetch()} />
  if (!status.data) return <Loading what="system status" />
  const s = status.data
  const outbox = s.outbox ?? []
  const failed = outbox.reduce((n, o) => n + o.failed, 0)
  return (
    <div className="flex flex-col gap-4">
      {status.error && <ProblemNote error={status.error} onRetry={() => void status.refetch()} />}
      <Note tone={s.ready ? 'ok' : 'bad'} title={s.ready ? 'Ready: every dependency is up.' : 'Not ready: something it depends on is down.'}>
        <p className="text-xs text-muted">
          Version {s.version} · this replica does {(s.roles ?? []).join(', ')} · as of <When at={new Date(status.dataUpdatedAt).toISOString()} />
        </p>
      </Note>
      {s.insecure && s.insecure.length > 0 && (
        <Note tone="bad" title={`In use without TLS: ${s.insecure.join(', ')}`}>
          The setting insecure of this replica allows it, although it leaves the machine. <span className="font-mono">gpuaas config check</span> says what that risks.
        </Note>
      )}
      <Dependencies of={s.dependencies ?? []} />
      <div className="grid gap-4 xl:grid-cols-2">
        <Outbox of={outbox} />
        <Workers of={s.workers} error={s.workers_error} />
      </div>
      {may('outbox:read') && failed > 0 && <DeadLetters />}
      <Links temporal={s.links.temporal_ui} />
    </div>
  )
}

function Dependencies({ of }: { of: Schemas['HealthState'][] }) {
  return (
    <section aria-label="Dependencies" className="grid gap-3 sm:grid-cols-2 xl:grid-cols-4">
      {of.map((d) => (
        <article key={d.name} className={`rounded-lg border bg-surface px-4 py-3 ${d.up ? 'border-line' : 'border-bad'}`}>
          <h2 className="flex items-center gap-2 text-sm font-semibold">
            {d.name} <Badge tone={d.up ? 'ok' : 'bad'}>{d.up ? 'up' : 'down'}</Badge>
          </h2>
          <p className="mt-1 text-xs text-muted">
            Asked <When at={d.checked_at} />, answered in {d.took_ms} ms
          </p>
          {d.message && <p className="mt-1 text-sm">{d.message}</p>}
          {d.remedy && <p className="mt-1 text-sm font-medium">{d.remedy}</p>}
          {d.code && <p className="mt-1 font-mono text-xs text-muted">{d.code}</p>}
        </article>
      ))}
    </section>
  )
}

// Delivery takes milliseconds; what waits for so long is not on its way.
const lateAfter = 30

function Outbox({ of }: { of: Schemas['SystemBacklog'][] }) {
  return (
    <Card title="Outbox: what waits to be delivered">
      <Plain
        label="Outbox"
        heads={['To', 'Waiting', 'Oldest', 'Dead letters']}
        rows={of.map((o) => [
          o.destination === 'nats' ? 'events (NATS)' : 'workflows (Temporal)',
          o.pending,
          o.pending === 0 ? '–' : o.oldest_age_seconds > lateAfter ? <Badge key="o" tone="warn">{span(o.oldest_age_seconds)}</Badge> : span(o.oldest_age_seconds),
          o.failed > 0 ? <Badge key="f" tone="bad">{o.failed}</Badge> : 0,
        ])}
      />
      {of.some((o) => o.pending > 0 && o.oldest_age_seconds > lateAfter) && <p className="mt-2 text-sm text-warn">Something waits longer than it should. See whether what it goes to is up.</p>}
    </Card>
  )
}

function Workers({ of, error }: { of: Schemas['SystemWorkers'][]; error?: string }) {
  return (
    <Card title="Workers: who does the work">
      {error && (
        <Note tone="warn" title="Temporal does not say what waits for workers">
          <p>{error}</p>
        </Note>
      )}
      {!error && of.length === 0 && <p className="text-sm text-muted">There is no task queue yet.</p>}
      {of.length > 0 && (
        <Plain
          label="Workers"
          heads={['Task queue', 'Of', 'Workers', 'Waiting', 'Oldest']}
          rows={of.map((w) => [
            w.task_queue,
            words(w.kind),
            w.pollers === 0 ? <Badge key="p" tone="bad">none</Badge> : w.pollers,
            w.backlog,
            w.backlog === 0 ? '–' : w.oldest_age_seconds > lateAfter ? <Badge key="o" tone="warn">{span(w.oldest_age_seconds)}</Badge> : span(w.oldest_age_seconds),
          ])}
        />
      )}
      {of.some((w) => w.pollers === 0) && <p className="mt-2 text-sm text-bad">No worker is running for a queue: start a process with the role worker.</p>}
    </Card>
  )
}

/** Plain is a small table of a few rows, all of which are shown. */
function Plain({ label, heads, rows }: { label: string; heads: string[]; rows: ReactNode[][] }) {
  return (
    <div className="overflow-x-auto">
      <table aria-label={label} className="w-full text-sm">
        <thead>
          <tr className="border-b border-line text-left text-xs text-muted">
            {heads.map((h) => (
              <th key={h} scope="col" className="py-1 pr-4 font-medium">
                {h}
              </th>
            ))}
          </tr>
        </thead>
        <tbody className="tabular-nums">
          {rows.map((cells, i) => (
            <tr key={i} className="border-b border-line last:border-0">
              {cells.map((c, j) => (
                <td key={heads[j]} className="py-1.5 pr-4 whitespace-nowrap">
                  {c}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

function Links({ temporal }: { temporal?: string }) {
  const links: [title: string, href: string, what: string][] = [
    ['API docs', '/docs', 'Every operation, with a form to try it.'],
    ['Contract', '/openapi.yaml', 'The same for programs (OpenAPI).'],
    ['Metrics', '/metrics', 'For Prometheus.'],
  ]
  if (temporal) links.unshift(['Temporal', temporal, 'Every workflow, step by step.'])
  return (
    <Card title="Where to see more">
      <ul className="flex flex-col gap-1 text-sm">
        {links.map(([title, href, what]) => (
          <li key={href}>
            <a href={href} target="_blank" rel="noreferrer" className="text-accent underline decoration-current/40 underline-offset-2 hover:decoration-current">
              {title}
            </a>{' '}
            <span className="text-muted">{what}</span>
          </li>
        ))}
      </ul>
      {!temporal && <p className="mt-2 text-xs text-muted">No web interface of Temporal is configured (console.temporal_ui_url).</p>}
    </Card>
  )
}
