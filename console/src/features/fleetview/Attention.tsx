import { Link } from '@tanstack/react-router'
import { Badge, Card, Spinner } from '../../ui/basics'
import type { Tone } from '../../ui/tone'
import { matters, type Known, type Matter } from './attention'

const called: Partial<Record<Tone, string>> = { bad: 'act', warn: 'check' }

/** Attention lists what waits for a person; each entry leads to where it is dealt with. */
export function Attention({ pending, unknown, ...known }: Known & { /** What is being read for the first time. */ pending: string[]; /** What could not be read. */ unknown: string[] }) {
  const found = matters(known)
  return (
    <Card title={found.length ? `Needs attention (${found.length})` : 'Needs attention'}>
      {found.length === 0 && unknown.length === 0 && pending.length === 0 && <p className="text-sm text-muted">Nothing needs your attention. Problems show up here as they happen.</p>}
      {pending.length > 0 && (
        <p role="status" className="mb-2 flex items-center gap-2 text-sm text-muted">
          <Spinner /> Checking {pending.join(', ')} …
        </p>
      )}
      {unknown.length > 0 && <p className="mb-2 text-sm text-warn">Could not load {unknown.join(', ')}. Problems there are not listed.</p>}
      {found.length > 0 && (
        <ul className="-m-2 grid gap-x-4 lg:grid-cols-2">
          {found.map((m) => (
            <Entry key={m.key} matter={m} />
          ))}
        </ul>
      )}
    </Card>
  )
}

function Entry({ matter }: { matter: Matter }) {
  return (
    <li>
      <Link to={matter.to} search={(matter.search ?? {})} className="flex items-start gap-3 rounded-md p-2 hover:bg-raised">
        <span className="w-12 shrink-0">
          <Badge tone={matter.tone}>{called[matter.tone] ?? 'info'}</Badge>
        </span>
        <span className="min-w-0">
          <span className="block text-sm font-medium">{matter.title}</span>
          <span className="block text-xs break-words text-muted">{matter.detail}</span>
        </span>
      </Link>
    </li>
  )
}
