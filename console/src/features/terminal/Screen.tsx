import { FitAddon } from '@xterm/addon-fit'
import { Terminal } from '@xterm/xterm'
import '@xterm/xterm/css/xterm.css'
import { useEffect, useRef, useState } from 'react'
import { asRefusal, type Refusal } from '../../api/client'
import { Button, Note } from '../../ui/basics'
import { ProblemNote } from '../../ui/problem'
import { between, Session, type Ending, type Opened } from './session'
import { styledByScript } from './styles'

type Props = {
  /** open asks for what opens one session of this size. */
  open: (size: { columns: number; rows: number }) => Promise<Opened>
  /** What the terminal is on, for those who cannot see it. */
  label: string
  onLeave: () => void
}

type Stage = { is: 'opening' } | { is: 'ready' } | { is: 'over'; why: Ending } | { is: 'refused'; refusal: Refusal }

/** Screen is a terminal: it opens a session, and shows it until it is over. */
export function Screen({ open, label, onLeave }: Props) {
  const [again, setAgain] = useState(0)
  return <OneSession key={again} open={open} label={label} onLeave={onLeave} onAgain={() => setAgain(again + 1)} />
}

function OneSession({ open, label, onLeave, onAgain }: Props & { onAgain: () => void }) {
  const place = useRef<HTMLDivElement>(null)
  const session = useRef<Session>(undefined)
  const ask = useRef(open)
  const [stage, setStage] = useState<Stage>({ is: 'opening' })
  useEffect(() => {
    if (place.current) return begin(place.current, label, ask.current, setStage, (s) => (session.current = s))
  }, [label])
  return (
    <div className="flex min-h-0 flex-1 flex-col gap-3">
      <div className="flex flex-wrap items-center gap-2">
        <span role="status" className="text-sm text-muted">
          {{ opening: 'Opening …', ready: 'Open', over: 'Closed', refused: 'Not opened' }[stage.is]}
        </span>
        <span className="flex-1" />
        {stage.is === 'ready' && <Button onClick={() => session.current?.close()}>Close the terminal</Button>}
        {(stage.is === 'over' || stage.is === 'refused') && (
          <>
            <Button onClick={onLeave}>Leave</Button>
            <Button look="primary" onClick={onAgain}>
              Open again
            </Button>
          </>
        )}
      </div>
      {stage.is === 'refused' && <ProblemNote error={stage.refusal} />}
      {stage.is === 'over' && (
        <Note tone={stage.why.wanted ? 'info' : 'warn'} title={stage.why.text}>
          {stage.why.remedy}
        </Note>
      )}
      <div ref={place} className="h-[70vh] overflow-hidden rounded-md border border-line bg-black p-2" />
    </div>
  )
}

/** begin opens a terminal in an element, and returns how to end it. */
function begin(place: HTMLElement, label: string, open: Props['open'], say: (stage: Stage) => void, started: (s: Session) => void): () => void {
  const unstyle = styledByScript(document)
  const screen = new Terminal({ screenReaderMode: true, scrollback: 5000, fontSize: 14, cursorBlink: false })
  const fit = new FitAddon()
  screen.loadAddon(fit)
  screen.open(place)
  screen.textarea?.setAttribute('aria-label', label)
  fit.fit()
  let gone = false
  let session: Session | undefined
  let early = ''
  screen.onData((text) => (session ? session.type(text) : (early += text)))
  screen.onResize(({ cols, rows }) => session?.resize(cols, rows))
  const resized = new ResizeObserver(() => fit.fit())
  resized.observe(place)
  const asked = { columns: between(screen.cols), rows: between(screen.rows) }
  open(asked)
    .then((opened) => {
      if (gone) return
      session = new Session(opened, {
        ready: () => {
          say({ is: 'ready' })
          session?.resize(screen.cols, screen.rows)
          screen.focus()
        },
        shown: (bytes) => screen.write(bytes),
        over: (why) => {
          screen.options.disableStdin = true
          if (!gone) say({ is: 'over', why })
        },
      })
      if (early) session.type(early)
      started(session)
    })
    .catch((error: unknown) => {
      if (!gone) say({ is: 'refused', refusal: asRefusal(error) })
    })
  return () => {
    gone = true
    resized.disconnect()
    session?.close()
    screen.dispose()
    unstyle()
  }
}
