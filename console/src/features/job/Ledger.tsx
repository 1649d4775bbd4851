import { useState } from 'react'
import { Badge, Button, Card, Code } from '../../ui/basics'
import { Dialog } from '../../ui/dialog'
import { Table, type Column } from '../../ui/table'
import { exact, When } from '../../ui/time'
import type { Tone } from '../../ui/tone'
import type { LedgerEvent, Stage } from './job'

const tones: Record<LedgerEvent['status'], Tone> = {
  started: 'info',
  succeeded: 'ok',
  failed: 'bad',
  skipped: 'idle',
  compensated: 'idle',
  action: 'accent',
  note: 'idle',
  observed: 'idle',
}

/** Ledger is every entry that was made about a job, newest first. */
export function Ledger({ events, stages }: { events: LedgerEvent[]; stages: Stage[] }) {
  const [open, setOpen] = useState<LedgerEvent>()
  const title = (name: string) => stages.find((s) => s.name === name)?.title ?? name.replaceAll('_', ' ')
  const columns: Column<LedgerEvent>[] = [
    { key: 'at', title: 'When', width: '8rem', cell: (e) => <When at={e.occurred_at} /> },
    { key: 'stage', title: 'Stage', width: 'minmax(10rem, 1fr)', cell: (e) => title(e.stage) },
    { key: 'status', title: 'What', width: '7.5rem', cell: (e) => <Badge tone={tones[e.status]}>{e.status}</Badge> },
    { key: 'attempt', title: 'Attempt', width: '5rem', align: 'right', cell: (e) => e.attempt || '–' },
    { key: 'message', title: 'Message', width: 'minmax(16rem, 3fr)', cell: (e) => <span title={e.message}>{e.message}</span> },
  ]
  return (
    <Card title={`Events (${events.length})`}>
      <Table label="Events" columns={columns} rows={events.toReversed()} rowKey={(e) => String(e.seq)} onOpen={setOpen} empty={<p className="text-sm text-muted">Nothing has happened yet.</p>} />
      {open && (
        <Dialog title={`${title(open.stage)}: ${open.status}`} onClose={() => setOpen(undefined)} wide>
          <div className="flex flex-col gap-3 text-sm">
            <p className="text-muted">{exact(open.occurred_at)}</p>
            {open.message && <p>{open.message}</p>}
            {open.details && <Code block>{JSON.stringify(open.details, null, 2)}</Code>}
            <div className="flex justify-end">
              <Button onClick={() => setOpen(undefined)}>Close</Button>
            </div>
          </div>
        </Dialog>
      )}
    </Card>
  )
}
