import type { ReactNode } from 'react'
import type { Schemas } from '../../api/client'
import { Badge, Card, Code, Facts } from '../../ui/basics'
import { between, exact } from '../../ui/time'
import { words } from '../../ui/tone'
import { accessWords, covered, had, levelWords, testifies, toneOfOutcome, verified, type Document, type Subject } from './document'

function Evidence({ of }: { of: Schemas['CertificateEvidence'][] }) {
  if (of.length === 0) return null
  return (
    <ul className="flex flex-col">
      {of.map((e) => (
        <li key={e.seq}>
          no. {e.seq}, {words(e.kind)} in {words(e.stage)} <span className="font-mono text-xs break-all text-muted">{e.digest}</span>
        </li>
      ))}
    </ul>
  )
}

/** Access is the most that somebody had on the node, and which installation speaks for it. */
export function Access({ access, installation }: { access: Document['access']; installation: Document['installation'] }) {
  return (
    <Card title="Access">
      {!access && <p className="text-sm text-muted">When this was issued, access to nodes was not recorded yet.</p>}
      <Facts
        of={[
          ...optional('Known access', access && <span className={access.had === 'root' ? 'font-medium text-bad' : ''}>{had(access, exact)}</span>),
          ...optional('Reported by installation', installation && <span className={installation.independent ? '' : 'font-medium text-bad'}>{testifies(installation, exact)}</span>),
          ...optional('Generation of its identity', installation && String(installation.generation)),
        ]}
      />
    </Card>
  )
}

function NotIndependent({ why }: { why: string }) {
  return (
    <span className="text-bad">
      <Badge tone="bad">NOT INDEPENDENT</Badge> {why}
    </span>
  )
}

/** Subjects is what was cleaned, device by device and area by area. */
export function Subjects({ of }: { of: Subject[] }) {
  return (
    <Card title={`What was cleaned (${of.length})`}>
      {of.length === 0 && <p className="text-sm text-muted">This document lists nothing as cleaned.</p>}
      <div className="flex flex-col divide-y divide-line">
        {of.map((s) => (
          <OneSubject key={s.kind + s.identifier} subject={s} />
        ))}
      </div>
    </Card>
  )
}

function OneSubject({ subject: s }: { subject: Subject }) {
  const check = verified(s.verification)
  return (
    <article className="py-3 first:pt-0 last:pb-0">
      <h3 className="mb-1.5 flex flex-wrap items-center gap-2 text-sm font-semibold">
        {words(s.kind)} <span className="font-mono break-all">{s.identifier}</span>
        <Badge tone={toneOfOutcome(s.outcome)}>{words(s.outcome)}</Badge>
        <Badge tone={s.level === 'none' ? 'idle' : 'accent'} title="NIST SP 800-88 level">
          {levelWords(s.level)}
        </Badge>
      </h3>
      <Facts
        of={[
          ...optional('Reported by', s.not_independent && <NotIndependent why={s.not_independent} />),
          ...optional('Device', s.description),
          ...optional('Method', s.method && `${words(s.method)}${s.tool ? ` with ${s.tool}${s.tool_version ? ` ${s.tool_version}` : ''}` : ''}`),
          ...optional('Covered', covered(s)),
          [
            'Verification',
            <span key="v">
              <Badge tone={check.tone}>{check.result}</Badge> {check.how}
            </span>,
          ],
          ...optional('Outcome', s.detail),
          ['When', `${exact(s.started_at)}, took ${between(s.started_at, s.ended_at, 0)}`],
          ['Observed by', words(s.observed_by)],
          ...optional('Evidence on record', s.evidence.length ? <Evidence of={s.evidence} /> : ''),
        ]}
      />
    </article>
  )
}

function optional(name: string, value: ReactNode): [string, ReactNode][] {
  return value ? [[name, value]] : []
}

/** Validation is the look for what tenants left, after the cleaning. */
export function Validation({ of }: { of: Document['validation'] }) {
  return (
    <Card title="Check afterwards">
      {!of && <p className="text-sm text-muted">None. Whether tenants left data behind was not checked afterwards.</p>}
      {of && (
        <div className="flex flex-col gap-2 text-sm">
          <p className="flex flex-wrap items-center gap-2">
            <Badge tone={!of.clean ? 'bad' : of.not_independent ? 'warn' : 'ok'}>{of.clean ? 'clean' : 'something was found'}</Badge>
            {of.clean ? accessWords.looked.clean : accessWords.looked.found} by {words(of.observed_by)}, {exact(of.at)}
          </p>
          {of.not_independent && <NotIndependent why={of.not_independent} />}
          <ul className="flex flex-col">
            {of.looked.map((l) => (
              <li key={l.kind + l.detail}>
                <span className="text-muted">{words(l.kind)}:</span> {words(l.result)} {l.detail && <span className="text-muted">({l.detail})</span>}
              </li>
            ))}
            {of.findings.map((f) => (
              <li key={f.kind + f.subject} className="text-bad">
                {words(f.kind)} {f.subject}: {f.detail}
              </li>
            ))}
          </ul>
          <Evidence of={of.evidence} />
        </div>
      )}
    </Card>
  )
}

/** Reported is what another system said and nobody here observed. */
export function Reported({ of }: { of: Schemas['CertificateReport'][] }) {
  if (of.length === 0) return null
  return (
    <Card title="Reported by others, not observed here">
      <ul className="flex flex-col gap-2 text-sm">
        {of.map((r) => (
          <li key={r.subject + r.at}>
            {r.by} reported about <Code>{r.subject}</Code>, {exact(r.at)}: {r.statement}
            <Evidence of={r.evidence} />
          </li>
        ))}
      </ul>
    </Card>
  )
}

/** Gaps is what the document says nothing about. */
export function Gaps({ of }: { of: Schemas['CertificateGap'][] }) {
  return (
    <Card title="Not covered">
      {of.length === 0 && <p className="text-sm text-muted">This document lists nothing as not covered.</p>}
      <ul className="list-disc pl-5 text-sm">
        {of.map((g) => (
          <li key={g.what + g.subject}>
            {g.what}: {g.why}
          </li>
        ))}
      </ul>
    </Card>
  )
}

/** Decisions is where less was done than was asked for, and what people decided to go on without. */
export function Decisions({ downgrades, overrides }: { downgrades: Schemas['CertificateDowngrade'][]; overrides: Schemas['CertificateOverride'][] }) {
  return (
    <div className="grid gap-4 lg:grid-cols-2">
      <Card title="Downgrades: less than requested">
        {downgrades.length === 0 && <p className="text-sm text-muted">None.</p>}
        <div className="flex flex-col gap-3">
          {downgrades.map((d) => (
            <Facts
              key={d.subject + d.at}
              of={[
                ['Subject', <Code key="s">{d.subject}</Code>],
                ['Requested, achieved', `${d.requested}, ${d.achieved}`],
                ['Why', d.why],
                ['Decided by', `${d.decided_by}, ${exact(d.at)}`],
                ['Remaining risk', <strong key="r">{d.residual_risk}</strong>],
              ]}
            />
          ))}
        </div>
      </Card>
      <Card title="Skipped stages">
        {overrides.length === 0 && <p className="text-sm text-muted">None.</p>}
        <div className="flex flex-col gap-3">
          {overrides.map((o) => (
            <Facts
              key={o.stage + o.at}
              of={[
                ['Stage', words(o.stage)],
                ['By', `${o.by}, ${exact(o.at)}`],
                ['Why', o.why],
                ['Remaining risk', <strong key="r">{o.residual_risk}</strong>],
              ]}
            />
          ))}
        </div>
      </Card>
    </div>
  )
}
