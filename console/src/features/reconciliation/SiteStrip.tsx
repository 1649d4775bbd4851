import { useState } from 'react'
import { useMay } from '../../app/session'
import { Badge, Button, Code, TextLink } from '../../ui/basics'
import { When } from '../../ui/time'
import { siteTones, siteWords, type SiteOverview } from './findings'
import { LookNow } from './LookNow'

/** SiteStrip says of each site how fresh what is known about its machines is. */
export function SiteStrip({ sites }: { sites: SiteOverview[] }) {
  const may = useMay()
  const [looking, setLooking] = useState<SiteOverview>()
  return (
    <section aria-label="Sites" className="grid gap-3 md:grid-cols-2 xl:grid-cols-3">
      {sites.map((s) => (
        <article key={s.site_id} className="flex flex-col gap-2 rounded-lg border border-line bg-surface px-4 py-3">
          <header className="flex flex-wrap items-center gap-2">
            <h2 className="text-sm font-semibold">
              <TextLink to={`/sites/${s.site_id}`}>{s.name}</TextLink>
            </h2>
            <Badge tone={siteTones[s.state]}>{siteWords[s.state]}</Badge>
            {s.stale && s.state !== 'stale' && <Badge tone="warn">stale</Badge>}
            {may('reconciliation:manage') && (
              <Button className="ml-auto" onClick={() => setLooking(s)}>
                Check now …
              </Button>
            )}
          </header>
          <p className="text-sm">
            {s.nodes} {s.nodes === 1 ? 'node' : 'nodes'}: {s.ok} as expected, <span className={s.drifted ? 'text-warn' : ''}>{s.drifted} drifted</span>
            {s.unreconciled > 0 && <>, {s.unreconciled} not checked lately</>}
          </p>
          <dl className="grid grid-cols-[max-content_1fr] gap-x-4 text-xs">
            <dt className="text-muted">Last check</dt>
            <dd>
              <When at={s.last_cycle_at} />
            </dd>
            <dt className="text-muted">Last complete answer from MAAS</dt>
            <dd>
              <When at={s.last_informed_at} />
            </dd>
            <dt className="text-muted">All machines read</dt>
            <dd>
              <When at={s.sweep_ended_at} />
            </dd>
          </dl>
          {s.last_error && (
            <p className="text-xs text-bad">
              {s.last_error.message}
              {s.last_error.remedy && <span className="text-ink"> {s.last_error.remedy}</span>}
            </p>
          )}
          {s.remedy && (s.state === 'stale' || s.state === 'no_information') && (
            <p className="text-xs text-muted">
              What to do: <Code>{s.remedy}</Code>
            </p>
          )}
        </article>
      ))}
      {looking && <LookNow site={looking} onClose={() => setLooking(undefined)} />}
    </section>
  )
}
