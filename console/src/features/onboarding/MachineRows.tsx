import { useRef, useState, type DragEvent } from 'react'
import { Badge, Button, Note } from '../../ui/basics'
import { Table, type Column } from '../../ui/table'
import { asText, mostMachines, placeOf, plainLines, withoutLine, type MachineRow, type Parsed } from './machines'

type Props = { text: string; onText: (text: string) => void; parsed: Parsed; blocked: Map<string, string[]>; looked: boolean }

const largestFile = 1_000_000

/** MachineRows takes machines by paste, by file or by typing, and says of each row whether it will do. */
export function MachineRows({ text, onText, parsed, blocked, looked }: Props) {
  const area = useRef<HTMLTextAreaElement>(null)
  const [refused, setRefused] = useState('')
  const take = async (file: File | undefined) => {
    if (!file) return
    if (file.size > largestFile) return setRefused(`${file.name} is too large for a list of machines: ${mostMachines} rows at most.`)
    setRefused('')
    onText(plainLines(await file.text()))
  }
  const drop = (e: DragEvent) => {
    e.preventDefault()
    void take(e.dataTransfer.files[0])
  }
  const goTo = (line: number) => {
    area.current?.focus()
    area.current?.setSelectionRange(...placeOf(text, line))
  }
  const remove = (line: number) => onText(withoutLine(text, line))
  return (
    <div className="flex flex-col gap-3">
      <div className="flex flex-wrap items-end justify-between gap-2">
        <label htmlFor="machines" className="text-sm font-medium">
          Machines<span className="text-bad"> *</span>
        </label>
        <div className="flex flex-wrap gap-2">
          <FileButton onFile={(f) => void take(f)} />
          <Button onClick={() => onText(asText([{ hostname: 'c07u43', ipmi_ip: '10.176.16.128' }]))} disabled={text.trim() !== ''}>
            Show an example
          </Button>
        </div>
      </div>
      <textarea
        id="machines"
        ref={area}
        value={text}
        rows={8}
        spellCheck={false}
        aria-describedby="machines-hint"
        aria-invalid={parsed.problems.length > 0 || parsed.rows.some((r) => r.problems.length > 0) || undefined}
        placeholder={'hostname,ipmi_ip\nc07u43,10.176.16.128\nc07u44,10.176.16.129'}
        onChange={(e) => onText(e.target.value)}
        onDrop={drop}
        onDragOver={(e) => e.preventDefault()}
        className="w-full rounded-md border border-line bg-surface px-2.5 py-1.5 font-mono text-xs placeholder:text-muted"
      />
      <p id="machines-hint" className="text-xs text-muted">
        One line per machine: its name and the address of its BMC, separated by a comma, a semicolon, a tab or spaces. From a spreadsheet, paste the two columns. The first line may name the columns. At most {mostMachines}. You can also drop a CSV file here.
      </p>
      {refused && <Note tone="bad" title={refused} />}
      {parsed.problems.map((p) => (
        <Note key={p.text} tone="bad" title={`Line ${p.line}: ${p.text}`} actions={<Button onClick={() => goTo(p.line)}>Go to the line</Button>} />
      ))}
      {parsed.rows.length > 0 && <Rows parsed={parsed} blocked={blocked} looked={looked} onGo={goTo} onRemove={remove} />}
    </div>
  )
}

function FileButton({ onFile }: { onFile: (f: File | undefined) => void }) {
  const input = useRef<HTMLInputElement>(null)
  return (
    <>
      <input
        ref={input}
        type="file"
        accept=".csv,.txt,.tsv,text/csv,text/plain"
        aria-label="CSV file with machines"
        className="sr-only"
        tabIndex={-1}
        onChange={(e) => {
          onFile(e.target.files?.[0])
          e.target.value = ''
        }}
      />
      <Button onClick={() => input.current?.click()}>Choose a CSV file</Button>
    </>
  )
}

function Rows({ parsed, blocked, looked, onGo, onRemove }: { parsed: Parsed; blocked: Map<string, string[]>; looked: boolean; onGo: (line: number) => void; onRemove: (line: number) => void }) {
  const bad = parsed.rows.filter((r) => r.problems.length > 0)
  const stopped = parsed.rows.filter((r) => r.problems.length === 0 && blocked.has(r.hostname))
  const well = parsed.rows.length - bad.length - stopped.length
  const columns: Column<MachineRow>[] = [
    { key: 'line', title: 'Line', width: '4rem', align: 'right', cell: (r) => r.line },
    { key: 'hostname', title: 'Machine', width: 'minmax(8rem, 1fr)', cell: (r) => r.hostname },
    { key: 'ipmi_ip', title: 'BMC', width: 'minmax(8rem, 1fr)', cell: (r) => <span className="font-mono text-xs">{r.ipmi_ip}</span> },
    { key: 'result', title: 'Result', width: 'minmax(14rem, 3fr)', cell: (r) => <Result row={r} blocked={blocked.get(r.hostname)} looked={looked} /> },
    {
      key: 'do',
      title: 'Change',
      width: '10rem',
      cell: (r) => (
        <span className="flex justify-end gap-1">
          <button type="button" className="text-accent hover:underline" onClick={() => onGo(r.line)} aria-label={`Edit line ${r.line}`}>
            Edit
          </button>
          <span aria-hidden className="text-muted">·</span>
          <button type="button" className="text-accent hover:underline" onClick={() => onRemove(r.line)} aria-label={`Remove line ${r.line}`}>
            Remove
          </button>
        </span>
      ),
    },
  ]
  // What has to be put right stands first.
  const rows = [...bad, ...stopped, ...parsed.rows.filter((r) => r.problems.length === 0 && !blocked.has(r.hostname))]
  return (
    <div className="flex flex-col gap-2">
      <p role="status" className="flex flex-wrap items-center gap-2 text-sm">
        <Badge tone="ok">{well} valid</Badge>
        {bad.length > 0 && <Badge tone="bad">{bad.length} {bad.length === 1 ? 'needs' : 'need'} fixing</Badge>}
        {stopped.length > 0 && <Badge tone="bad">{stopped.length} blocked</Badge>}
      </p>
      <Table label="Machines as read" columns={columns} rows={rows} rowKey={(r) => String(r.line)} height={rows.length > 8 ? '20rem' : undefined} />
    </div>
  )
}

function Result({ row, blocked, looked }: { row: MachineRow; blocked?: string[]; looked: boolean }) {
  const problems = row.problems.length > 0 ? row.problems : blocked
  if (problems) {
    return (
      <span className="text-bad" title={problems.join('; ')}>
        {problems.join('; ')}
      </span>
    )
  }
  return <span className="text-ok">{looked ? 'checked: no problems' : 'valid'}</span>
}
