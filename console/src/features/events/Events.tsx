import { useCallback, useState } from 'react'
import { useConnection, useRecentEvents, type LiveEvent } from '../../api/live'
import { useSearchState } from '../../app/location'
import { Badge, Button, Code, Empty, Facts, LinkButton, Note, Page, TextLink } from '../../ui/basics'
import { Dialog } from '../../ui/dialog'
import { Table, type Column } from '../../ui/table'
import { Elapsed, When, exact } from '../../ui/time'
import type { Tone } from '../../ui/tone'
import { chips, Filters } from '../../ui/filters'
import { FilterText } from '../../ui/filtertext'
import { about, families, gist, leadsTo } from './feed'

/** Events shows what happens, as it happens. */
export default function Events() {
  const [search, change] = useSearchState()
  const [opened, setOpened] = useState<LiveEvent>()
  const [paused, setPaused] = useState<LiveEvent[]>()
  const ofType = useCallback((type: string) => change({ type }), [change])
  const connection = useConnection()
  const recent = useRecentEvents()
  const shown = paused ?? recent
  const rows = search.type ? shown.filter((e) => e.envelope.event_type.startsWith(search.type ?? '')) : shown
  const missed = paused ? countBefore(recent, paused[0]) : 0
  return (
    <Page
      title="Events"
      lead="What happens, as it happens. Only what came since this page of the browser was loaded is shown, the newest 500; the audit log has what was before."
      actions={
        <>
          <Button aria-pressed={paused !== undefined} onClick={() => setPaused(paused ? undefined : recent)}>
            {paused ? `Go on${missed ? `, ${missed} new` : ''}` : 'Pause'}
          </Button>
          <LinkButton to="/audit">Audit log</LinkButton>
        </>
      }
    >
      {connection.state !== 'live' && (
        <Note tone="warn" title={connection.state === 'lost' ? 'Not connected: nothing new comes in' : connection.state === 'off' ? 'Events are not yours to read' : 'Connecting'}>
          {connection.state === 'off' && <p>Your role does not include event:read, so no events appear here. The other pages refresh now and then.</p>}
          {connection.state === 'lost' && (
            <p>
              For <Elapsed from={new Date(connection.since).toISOString()} />. What is missed meanwhile is fetched as soon as the control plane answers, as long as its stream still holds it. {connection.reason}
            </p>
          )}
        </Note>
      )}
      <Filters active={chips(search, change, [{ key: 'type', label: 'Type' }])} onClearAll={() => change({ type: undefined })}>
        <FilterText label="Type begins with" value={search.type ?? ''} onChange={ofType} placeholder="node.onboarding." list={families(shown.map((e) => e.envelope.event_type))} />
      </Filters>
      <Table
        label="Events"
        columns={columns}
        rows={rows}
        rowKey={(e) => e.id}
        onOpen={setOpened}
        height="70vh"
        empty={
          shown.length > 0 ? (
            <Empty title="No event of this type yet" action={<Button onClick={() => change({ type: undefined })}>All types</Button>}>
              {shown.length} others came since this page was loaded.
            </Empty>
          ) : (
            <Empty title="Nothing has happened yet">{connection.state === 'live' ? 'Connected. Events appear here by themselves: onboard a machine, or run a self-check under System health, to see some.' : 'Not connected yet.'}</Empty>
          )
        }
      />
      {opened && <EventDialog event={opened} onClose={() => setOpened(undefined)} />}
    </Page>
  )
}

function countBefore(recent: LiveEvent[], first: LiveEvent | undefined): number {
  const at = first ? recent.indexOf(first) : -1
  return at < 0 ? recent.length : at
}

const alarming: [RegExp, Tone][] = [
  [/manual_intervention|breaker_opened|identity_conflict/, 'bad'],
  [/failed|detected|unheard|revoked|cancelled/, 'warn'],
  [/completed|resolved|enrolled|issued|closed|heard/, 'ok'],
]

function toneOfType(type: string): Tone {
  return alarming.find(([fits]) => fits.test(type))?.[1] ?? 'idle'
}

const columns: Column<LiveEvent>[] = [
  { key: 'at', title: 'When', width: '7rem', cell: (e) => <When at={e.envelope.occurred_at} /> },
  { key: 'type', title: 'Type', width: 'minmax(15rem, 1fr)', cell: (e) => <Badge tone={toneOfType(e.envelope.event_type)}>{e.envelope.event_type}</Badge> },
  { key: 'about', title: 'About', width: 'minmax(9rem, 0.7fr)', cell: (e) => about(e.envelope.payload) },
  { key: 'gist', title: 'What', width: 'minmax(14rem, 1.6fr)', cell: (e) => gist(e.envelope.payload) },
  { key: 'correlation', title: 'Caused by', width: '9rem', cell: (e) => <CorrelationLink id={e.envelope.correlation_id} short /> },
]

/** CorrelationLink leads to all that one request caused, as the audit log has it. */
function CorrelationLink({ id, short }: { id: string; short?: boolean }) {
  if (!id) return null
  return (
    <TextLink to="/audit" search={{ correlation_id: id }}>
      {short ? `${id.slice(0, 13)}…` : id}
    </TextLink>
  )
}

function EventDialog({ event, onClose }: { event: LiveEvent; onClose: () => void }) {
  const { envelope: e } = event
  const links = leadsTo(e.payload)
  return (
    <Dialog title={e.event_type} onClose={onClose} wide>
      <div className="flex flex-col gap-4">
        <Facts
          of={[
            ['When', exact(e.occurred_at)],
            ['Event id', <Code key="i">{e.event_id}</Code>],
            ['Place in the stream', <Code key="p">{event.id}</Code>],
            ['Correlation id', <CorrelationLink key="c" id={e.correlation_id} />],
            ['Tenant', e.org_id],
          ]}
        />
        {links.length > 0 && (
          <p className="flex flex-wrap gap-2">
            {links.map((l) => (
              <LinkButton key={l.to} to={l.to}>
                {l.title}
              </LinkButton>
            ))}
          </p>
        )}
        <Code block>{JSON.stringify(e.payload, null, 2)}</Code>
      </div>
    </Dialog>
  )
}
