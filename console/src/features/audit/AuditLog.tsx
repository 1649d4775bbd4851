import { enums } from '../../api/gen/enums'
import { useCallback, useState } from 'react'
import { api, got, type Schemas } from '../../api/client'
import { usePages } from '../../api/pages'
import { useSearchState } from '../../app/location'
import { Badge, Code, Empty, Facts, Loading, Page, State, TextLink } from '../../ui/basics'
import { Dialog } from '../../ui/dialog'
import { SelectField, TextField } from '../../ui/form'
import { ProblemNote } from '../../ui/problem'
import { Table, type Column } from '../../ui/table'
import { exact, When } from '../../ui/time'
import { words } from '../../ui/tone'
import { chips, Filters } from '../../ui/filters'
import { FilterText } from '../../ui/filtertext'
import { toMoment } from './moment'
import { about, kindsOf, whose } from './whose'

type Entry = Schemas['AuditLogEntry']

const results = enums['list-audit-logs.result']
const filters = ['by', 'action', 'actor', 'actor_id', 'target', 'target_kind', 'target_id', 'result', 'correlation_id', 'since', 'until'] as const
const none = Object.fromEntries(filters.map((f) => [f, undefined]))

/** AuditLog is who did what to what, and who was refused. */
export default function AuditLog() {
  const [search] = useSearchState()
  const [opened, setOpened] = useState<Entry>()
  const { action, actor, actor_id, target, target_kind, target_id, correlation_id } = search
  const actor_kinds = kindsOf(search)
  const result = results.find((r) => r === search.result)
  const [since, until] = [toMoment(search.since), toMoment(search.until)]
  const pages = usePages(
    ['audit', actor_kinds, action, actor, actor_id, target, target_kind, target_id, result, correlation_id, since, until],
    (cursor) => got(api.GET('/api/v1/admin/audit-logs', { params: { query: { actor_kinds, action, actor, actor_id, target, target_kind, target_id, result, correlation_id, since, until, cursor, page_size: 100 } } })),
    { refetchInterval: 15_000 },
  )
  const filtered = filters.some((f) => search[f])
  return (
    <Page title="Audit log" lead="Who did what to what, and who was refused.">
      <AuditFilters rows={pages.rows} />
      {pages.error && <ProblemNote error={pages.error} onRetry={pages.retry} />}
      {pages.loading && <Loading what="entries" />}
      {!pages.loading && !(pages.error && pages.rows.length === 0) && (
        <>
          <Table
            label="Audit log"
            columns={columns}
            rows={pages.rows}
            rowKey={(e) => e.id}
            onOpen={setOpened}
            more={pages.more}
            stale={pages.stale}
            empty={<Empty title={filtered ? 'No entry matches these filters' : 'Nothing has been recorded yet'}>{filtered ? 'Remove a filter to see more.' : 'Every change, and every attempt that was refused, is recorded here.'}</Empty>}
          />
          {/* The rows of an earlier question have no time of their own. */}
          {pages.readAt > 0 && (
            <p className="text-xs text-muted">
              As of <When at={new Date(pages.readAt).toISOString()} />. Refreshed every 15 seconds.
            </p>
          )}
        </>
      )}
      {opened && <EntryDialog entry={opened} onClose={() => setOpened(undefined)} />}
    </Page>
  )
}

const outcomes = [{ value: '', label: 'all' }, ...results]

function AuditFilters({ rows }: { rows: Entry[] }) {
  const [search, change] = useSearchState()
  const seen = (of: (e: Entry) => string) => [...new Set(rows.map(of))].sort()
  const active = chips(search, change, [
    { key: 'by', label: 'Done by', options: whose },
    { key: 'actor', label: 'Who' },
    { key: 'actor_id', label: 'Who (id)' },
    { key: 'target', label: 'On what' },
    { key: 'target_kind', label: 'Kind' },
    { key: 'target_id', label: 'On what (id)' },
    { key: 'action', label: 'Action' },
    { key: 'result', label: 'Result', options: outcomes },
    { key: 'correlation_id', label: 'Correlation id' },
    { key: 'since', label: 'At or after' },
    { key: 'until', label: 'Before' },
  ])
  return (
    <Filters
      active={active}
      onClearAll={() => change(none)}
      more={
        <>
          <SelectField label="Done by" value={search.by ?? (about(search) ? 'all' : '')} onChange={(by) => change({ by: by || (about(search) ? 'people' : undefined) })} options={whose} />
          <Filter name="actor" label="Who" placeholder="name or id" list={seen((e) => e.actor_name)} />
          <Filter name="action" label="Action" placeholder="node.quarantine" list={seen((e) => e.action)} />
          <SelectField label="Result" value={search.result ?? ''} onChange={(result) => change({ result })} options={outcomes} />
          <TextField label="At or after" type="datetime-local" value={search.since ?? ''} onChange={(since) => change({ since })} />
          <TextField label="Before" type="datetime-local" value={search.until ?? ''} onChange={(until) => change({ until })} />
          <Filter name="correlation_id" label="Correlation id" />
        </>
      }
    >
      <Filter name="target" label="On what" placeholder="host name, tenant, person or id" />
    </Filters>
  )
}

function Filter({ name, ...field }: { name: string; label: string; placeholder?: string; list?: string[] }) {
  const [search, change] = useSearchState()
  const set = useCallback((value: string) => change({ [name]: value }), [change, name])
  return <FilterText {...field} value={search[name] ?? ''} onChange={set} />
}

const columns: Column<Entry>[] = [
  { key: 'at', title: 'When', width: '7rem', cell: (e) => <When at={e.occurred_at} /> },
  {
    key: 'what',
    title: 'What happened',
    width: 'minmax(20rem, 2.4fr)',
    cell: (e) => (
      <span title={e.sentence} className={e.result === 'success' ? '' : e.result === 'denied' ? 'font-semibold text-warn' : 'font-semibold text-bad'}>
        {e.sentence}
      </span>
    ),
  },
  { key: 'reason', title: 'Reason', width: 'minmax(10rem, 1.2fr)', cell: (e) => <span title={e.reason}>{e.reason}</span> },
  { key: 'role', title: 'As', width: '9rem', cell: (e) => words(e.actor_role) },
  { key: 'address', title: 'From', width: '8rem', cell: (e) => e.actor_address },
]

function EntryDialog({ entry: e, onClose }: { entry: Entry; onClose: () => void }) {
  return (
    <Dialog
      title={
        <>
          {e.sentence} <State of="result" is={e.result} />
        </>
      }
      onClose={onClose}
      wide
    >
      <div className="flex flex-col gap-4">
        <Facts
          of={[
            ['When', exact(e.occurred_at)],
            ['Action', <Narrow key="a" to={{ action: e.action }} onGo={onClose}>{e.action}</Narrow>],
            [
              'Who',
              <span key="w">
                {e.actor_name} <Badge>{words(e.actor_kind)}</Badge> <Badge>{words(e.actor_role)}</Badge> <Narrow to={{ by: 'all', actor_id: e.actor_id }} onGo={onClose}>{e.actor_id}</Narrow>
              </span>,
            ],
            ['From', e.actor_address],
            ['Target', <span key="t">{words(e.target_kind)} {e.target_name} <Narrow to={{ by: 'all', target_kind: e.target_kind, target_id: e.target_id }} onGo={onClose}>{e.target_id}</Narrow></span>],
            ['Reason', e.reason],
            ['Tenant', e.org_id && <TextLink to={`/access/tenants/${e.org_id}`}>{e.org_id}</TextLink>],
            ['Project', e.project_id && <TextLink to={`/access/projects/${e.project_id}`}>{e.project_id}</TextLink>],
            ['Correlation id', <Narrow key="c" to={{ by: 'all', correlation_id: e.correlation_id }} onGo={onClose}>{e.correlation_id}</Narrow>],
            ['Entry', <Code key="i">{e.id}</Code>],
          ]}
        />
        {e.metadata !== undefined && e.metadata !== null && <Code block>{JSON.stringify(e.metadata, null, 2)}</Code>}
      </div>
    </Dialog>
  )
}

/** Narrow leads to all entries with the same value. */
function Narrow({ to, onGo, children }: { to: Record<string, string>; onGo: () => void; children: string }) {
  const [, change] = useSearchState()
  const go = () => {
    change({ ...none, ...to })
    onGo()
  }
  return (
    <button type="button" title="Show all entries with this" onClick={go} className="text-left break-all text-accent underline decoration-current/40 underline-offset-2 hover:decoration-current">
      {children}
    </button>
  )
}
