import { useNavigate } from '@tanstack/react-router'
import { useEffect, useId, useRef, useState, type KeyboardEvent } from 'react'
import { Badge, Spinner, State } from '../../ui/basics'
import { Dialog } from '../../ui/dialog'
import { useRested } from '../../ui/rested'
import type { Hit } from './hits'
import { useFound } from './sources'

const patience = 150

/** Palette finds anything by its name: what is typed is answered as it is typed, arrow keys choose, Enter goes there. */
export default function Palette({ onClose }: { onClose: () => void }) {
  const [typed, setTyped] = useState('')
  const [at, setAt] = useState(0)
  const text = useRested(typed, patience)
  const found = useFound(text)
  const navigate = useNavigate()
  const id = useId()
  const list = useRef<HTMLDivElement>(null)
  const entered = useRef(false)
  const hits = found.groups.flatMap((g) => g.hits)
  const chosen = Math.min(at, hits.length - 1)
  const waiting = found.waiting || text !== typed
  useEffect(() => {
    list.current?.querySelector('[aria-selected=true]')?.scrollIntoView({ block: 'nearest' })
  }, [chosen])
  const go = (hit: Hit) => {
    onClose()
    void navigate({ to: hit.to, search: hit.search ?? {} })
  }
  // Enter that comes before the answers counts when they are there.
  useEffect(() => {
    const hit = hits[chosen]
    if (!entered.current || waiting) return
    entered.current = false
    if (hit) go(hit)
  })
  const onKey = (e: KeyboardEvent) => {
    const to = moved(e.key, chosen, hits.length)
    const hit = hits[chosen]
    if (to !== undefined) setAt(to)
    else if (e.key !== 'Enter') return
    else if (waiting) entered.current = true
    else if (hit) go(hit)
    e.preventDefault()
  }
  return (
    <Dialog title="Search" onClose={onClose} bare>
      <div role="search" className="flex items-center gap-2 border-b border-line px-4">
        <input
          role="combobox"
          aria-label="Search"
          aria-expanded={hits.length > 0}
          aria-controls={`${id}-list`}
          aria-autocomplete="list"
          aria-activedescendant={hits[chosen] ? `${id}-${chosen}` : undefined}
          placeholder="Node, job, site, tenant or page"
          autoComplete="off"
          spellCheck={false}
          value={typed}
          onChange={(e) => {
            entered.current = false
            setTyped(e.target.value)
            setAt(0)
          }}
          onKeyDown={onKey}
          className="min-w-0 flex-1 bg-transparent py-3 text-base outline-none placeholder:text-muted"
        />
        {waiting && <Spinner />}
      </div>
      <div ref={list} id={`${id}-list`} role="listbox" aria-label="Suggestions" className="max-h-[55vh] overflow-y-auto p-1.5">
        {found.groups.map((g) => (
          <div key={g.kind} role="group" aria-labelledby={`${id}-${g.kind}`}>
            <div aria-hidden id={`${id}-${g.kind}`} className="px-2.5 pt-2 pb-1 text-xs font-medium text-muted">
              {g.kind}
            </div>
            {g.hits.map((hit) => {
              const n = hits.indexOf(hit)
              return <Row key={hit.key} id={`${id}-${n}`} hit={hit} chosen={n === chosen} onChoose={() => go(hit)} onPoint={() => setAt(n)} />
            })}
          </div>
        ))}
      </div>
      <Standing text={text} waiting={waiting} found={hits.length} unread={found.unread} />
    </Dialog>
  )
}

/** moved is where a key leads in a list of so many; undefined is nowhere. */
function moved(key: string, at: number, length: number): number | undefined {
  if (length === 0) return undefined
  if (key === 'ArrowDown') return (at + 1) % length
  if (key === 'ArrowUp') return (at - 1 + length) % length
  return undefined
}

type RowProps = { id: string; hit: Hit; chosen: boolean; onChoose: () => void; onPoint: () => void }

function Row({ id, hit, chosen, onChoose, onPoint }: RowProps) {
  return (
    // eslint-disable-next-line jsx-a11y/click-events-have-key-events, jsx-a11y/interactive-supports-focus -- the box above keeps the focus and has the keys
    <div id={id} role="option" aria-selected={chosen} onClick={onChoose} onPointerMove={onPoint} className={`flex cursor-pointer items-center gap-2 rounded-md px-2.5 py-1.5 text-sm ${chosen ? 'bg-accent-soft' : ''}`}>
      <span className="min-w-0 flex-1 truncate">
        <span className="font-medium">{hit.title}</span>
        {hit.detail && <span className={`ml-2 text-xs ${chosen ? 'text-ink' : 'text-muted'}`}>{hit.detail}</span>}
      </span>
      {hit.marks?.map((m) => (
        <Badge key={m.text} tone={m.tone}>
          {m.text}
        </Badge>
      ))}
      {hit.state && <State of={hit.state.of} is={hit.state.is} />}
    </div>
  )
}

function Standing({ text, waiting, found, unread }: { text: string; waiting: boolean; found: number; unread: string[] }) {
  const nothing = text.trim() !== '' && !waiting && found === 0 && unread.length === 0
  return (
    <div role="status" className="border-t border-line px-4 py-2 text-xs text-muted">
      {unread.map((why) => (
        <p key={why} className="text-bad">
          {why}
        </p>
      ))}
      {nothing && <p className="text-sm text-ink">Nothing that you may see is called “{text.trim()}”.</p>}
      <p aria-hidden className="hidden sm:block">
        ↑ ↓ to choose · Enter to open · Esc to close
      </p>
      <span className="sr-only">{waiting ? 'Searching' : `${found} suggestions`}</span>
    </div>
  )
}
