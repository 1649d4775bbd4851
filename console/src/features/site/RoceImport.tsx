import { useMutation } from '@tanstack/react-query'
import { useId, useMemo, useState, type ChangeEvent, type SyntheticEvent } from 'react'
import { api, asRefusal, got } from '../../api/client'
import { Badge, Button, Note } from '../../ui/basics'
import { Dialog } from '../../ui/dialog'
import { TextArea } from '../../ui/form'
import { ProblemNote } from '../../ui/problem'
import { Table, type Column } from '../../ui/table'
import { isRight, readRoce, refusedLines, type RoceLine } from './roceRows'
import type { Site } from './siteQueries'

const columns: Column<RoceLine>[] = [
  { key: 'line', title: 'Line', width: '4rem', align: 'right', cell: (l) => l.line },
  { key: 'state', title: 'State', width: '5rem', cell: (l) => <Badge tone={isRight(l) ? 'ok' : 'bad'}>{isRight(l) ? 'right' : 'wrong'}</Badge> },
  { key: 'hostname', title: 'hostname', width: 'minmax(7rem, 1fr)', cell: (l) => <Cell text={l.row.hostname} wrong={l.wrong.hostname} /> },
  { key: 'interface', title: 'interface', width: 'minmax(7rem, 1fr)', cell: (l) => <Cell text={l.row.interface} wrong={l.wrong.interface} /> },
  { key: 'ipv4_cidr', title: 'ipv4_cidr', width: 'minmax(9rem, 1fr)', cell: (l) => <Cell text={l.row.ipv4_cidr} wrong={l.wrong.ipv4_cidr} /> },
  { key: 'mtu', title: 'mtu', width: '4.5rem', cell: (l) => <Cell text={l.row.mtu === undefined ? '' : String(l.row.mtu)} wrong={l.wrong.mtu} /> },
]

function Cell({ text, wrong }: { text: string; wrong?: string }) {
  return (
    <span className={`font-mono text-xs ${wrong ? 'text-bad underline decoration-wavy' : ''}`} title={wrong}>
      {text || '–'}
    </span>
  )
}

/** RoceImport takes rows by paste or from a file, and shows what is wrong with each before anything is sent. */
export function RoceImport({ site, onClose, onDone }: { site: Site; onClose: () => void; onDone: (text: string) => void }) {
  const [text, setText] = useState('')
  const read = useMemo(() => readRoce(text), [text])
  const sending = useMutation({
    mutationFn: () => got(api.POST('/api/v1/admin/maas-sites/{site_id}/roce-assignments', { params: { path: { site_id: site.site_id } }, body: { items: read.lines.map((l) => l.row) } })),
    onSuccess: (did) => {
      onDone(`RoCE table: ${did.created} new, ${did.updated} changed, ${did.unchanged} as they were.`)
      onClose()
    },
  })
  const change = (to: string) => {
    setText(to)
    sending.reset() // what was refused was another text
  }
  const lines = sending.error ? refusedLines(read.lines, asRefusal(sending.error).fields) : read.lines
  const wrong = lines.filter((l) => !isRight(l))
  const submit = (e: SyntheticEvent) => {
    e.preventDefault()
    sending.mutate()
  }
  const ready = read.lines.length > 0 && read.lines.every(isRight)
  return (
    <Dialog wide title={`RoCE addresses of ${site.name}`} onClose={onClose}>
      <form onSubmit={submit} className="flex flex-col gap-4">
        <p className="text-sm text-muted">One row each line: hostname, interface, ipv4_cidr and, if wanted, mtu, with commas, semicolons or tabs between. A first line may name the columns. All rows are written or none; a row replaces the one of the same host and interface, others stay.</p>
        <FilePicker onText={change} />
        <TextArea label="Rows" mono rows={6} value={text} onChange={change} placeholder={'hostname,interface,ipv4_cidr,mtu\nc07u31,enp28s0np0,172.30.9.61/31,9000'} error={read.wrong} />
        {wrong.length > 0 && <Mistakes wrong={wrong} refused={!!sending.error} />}
        {lines.length > 0 && <Table label="Rows as they were read" columns={columns} rows={lines} rowKey={(l) => String(l.line)} height={`${Math.min(lines.length + 1, 9) * 37 + 2}px`} />}
        {sending.error && <ProblemNote error={sending.error} />}
        <div className="flex flex-wrap items-center justify-end gap-2">
          {ready && !sending.error && <p className="mr-auto text-sm text-muted">{lines.length.toLocaleString('en')} rows are ready.</p>}
          <Button disabled={sending.isPending} onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" busy={sending.isPending} disabled={!ready}>
            {ready ? `Write ${lines.length.toLocaleString('en')} ${lines.length === 1 ? 'row' : 'rows'}` : 'Write rows'}
          </Button>
        </div>
      </form>
    </Dialog>
  )
}

const told = 8

function Mistakes({ wrong, refused }: { wrong: RoceLine[]; refused: boolean }) {
  const which = wrong.length === 1 ? 'One line' : `${wrong.length} lines`
  const title = refused ? `${which} ${wrong.length === 1 ? 'was' : 'were'} refused; nothing was written` : `${which} ${wrong.length === 1 ? 'needs' : 'need'} correction; nothing is sent before`
  return (
    <Note tone="bad" title={title}>
      <ul className="mt-1 list-disc pl-5">
        {wrong.slice(0, told).map((l) => (
          <li key={l.line}>
            Line {l.line}:{' '}
            {Object.entries(l.wrong)
              .map(([field, message]) => (field === 'line' ? message : `${field} ${message}`))
              .join('; ')}
          </li>
        ))}
      </ul>
      {wrong.length > told && <p>and {wrong.length - told} more, marked below.</p>}
    </Note>
  )
}

/** FilePicker reads a file into the form; it goes nowhere else. */
function FilePicker({ onText }: { onText: (text: string) => void }) {
  const id = useId()
  const pick = async (e: ChangeEvent<HTMLInputElement>) => {
    const file = e.target.files?.[0]
    if (file) onText(await file.text())
    e.target.value = '' // the same file, corrected, can be taken again
  }
  return (
    <div className="flex flex-wrap items-center gap-2 text-sm">
      <label htmlFor={id} className="font-medium">
        From a file
      </label>
      <input id={id} type="file" accept=".csv,.tsv,.txt,text/csv,text/plain" onChange={(e) => void pick(e)} className="max-w-full text-xs file:mr-2 file:rounded-md file:border file:border-line file:bg-surface file:px-2 file:py-1 file:text-ink" />
    </div>
  )
}
