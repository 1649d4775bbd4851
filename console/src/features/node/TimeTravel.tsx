import { useEffect, useId, useState } from 'react'
import { Button, Spinner } from '../../ui/basics'
import { TextField } from '../../ui/form'
import { exact, useNow } from '../../ui/time'
import { useHistory, type Detail } from './queries'
import { after, before } from './timeline'
import { beginning, inputOf, momentOf, positionOf, steps, typed } from './travel'

/** TimeTravel chooses the moment that the page shows the node at, and says clearly that it is not now. */
export function TimeTravel({ node, at, known, loading, onTravel }: { node: Detail; at: string; /** Whether there is anything to show of it then. */ known: boolean; loading: boolean; onTravel: (to: string | undefined) => void }) {
  const now = useNow()
  const history = useHistory(node.node_id)
  const from = beginning(node.created_at)
  const moment = Date.parse(at)
  const earlier = before(history.rows, moment)
  const later = after(history.rows, moment)
  const cause = history.rows.find((c) => Date.parse(c.occurred_at) <= moment)
  return (
    <section aria-label="Time travel" className="flex flex-col gap-3 rounded-lg border-2 border-accent bg-accent-soft p-4">
      <div className="flex flex-wrap items-start justify-between gap-3">
        <div role="status" className="min-w-0">
          <p className="flex items-center gap-2 font-semibold text-accent">
            You are looking at the past: {exact(at)} {loading && <Spinner />}
          </p>
          <p className="text-sm">
            {known || loading ? 'This is the node as it was recorded then. You cannot change anything here.' : 'Nothing is recorded for that time. Choose another time.'}
            {known && cause && <> The last change before: {cause.cause || cause.kind.replaceAll('_', ' ')}.</>}
          </p>
        </div>
        <Button look="primary" onClick={() => onTravel(undefined)}>
          Back to now
        </Button>
      </div>
      <div className="flex flex-wrap items-end gap-3">
        <Button disabled={!earlier} onClick={() => earlier && onTravel(earlier.occurred_at)}>
          ◂ Previous change
        </Button>
        <Slider key={at} at={moment} from={from} to={now} onTravel={onTravel} />
        <Button disabled={!later} onClick={() => later && onTravel(later.occurred_at)}>
          Next change ▸
        </Button>
        <Moment key={`${at} typed`} at={moment} from={from} to={now} onTravel={onTravel} />
      </div>
    </section>
  )
}

type Choice = { at: number; from: number; to: number; onTravel: (to: string) => void }

/** Slider asks for the moment when it comes to rest. */
function Slider({ at, from, to, onTravel }: Choice) {
  const id = useId()
  const [position, setPosition] = useState<number>()
  useEffect(() => {
    if (position === undefined) return
    const rest = setTimeout(() => onTravel(new Date(momentOf(position, from, to)).toISOString()), 300)
    return () => clearTimeout(rest)
    // The end of the scale moves with the clock; only a moved slider asks.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [position])
  const shown = position ?? positionOf(at, from, to)
  const moment = exact(new Date(position === undefined ? at : momentOf(position, from, to)).toISOString())
  return (
    <div className="min-w-48 flex-1">
      <label htmlFor={id} className="flex justify-between text-xs text-muted">
        <span>{exact(new Date(from).toISOString())}</span>
        <span className="sr-only">As it was at</span>
        <span>now</span>
      </label>
      <input id={id} type="range" min={0} max={steps} value={shown} aria-valuetext={moment} onChange={(e) => setPosition(Number(e.target.value))} className="w-full accent-(--accent)" />
    </div>
  )
}

function Moment({ at, from, to, onTravel }: Choice) {
  const [text, setText] = useState(inputOf(at))
  const wanted = typed(text)
  const outside = wanted !== undefined && (wanted < from - 60_000 || wanted > to) ? 'Choose a time between its creation and now.' : undefined
  const choose = (value: string) => {
    setText(value)
    const moment = typed(value)
    if (moment !== undefined && moment >= from - 60_000 && moment <= to) onTravel(new Date(Math.max(moment, from)).toISOString())
  }
  return (
    <div className="w-56">
      <TextField label="As it was at" type="datetime-local" value={text} onChange={choose} error={outside} />
    </div>
  )
}
