import { useQueryClient } from '@tanstack/react-query'
import { useEffect, useRef, useState } from 'react'
import { useMay } from '../../app/session'
import { Badge, Button, Card, Code } from '../../ui/basics'
import { ReasonDialog } from '../../ui/dialog'
import { say } from '../../ui/toast'
import type { Tone } from '../../ui/tone'
import { actionTitle, idOf, isOver, type ActionName, type ExplainedAction, type JobDetail, type Kind } from './job'

/** safety is how careful one must be with an action, in words. */
export const safety: Record<ExplainedAction['safety'], { tone: Tone; text: string }> = {
  safe: { tone: 'ok', text: 'safe' },
  needs_care: { tone: 'warn', text: 'needs care' },
  destroys_data: { tone: 'bad', text: 'destroys data' },
}

type Props = {
  kind: Kind
  of: JobDetail
  recover: (id: string, action: ActionName, reason: string) => Promise<unknown>
}

/** RecoveryActions are what an operator can do now, the best first, with what each will do. */
export function RecoveryActions({ kind, of, recover }: Props) {
  const may = useMay()
  const queries = useQueryClient()
  const [asked, setAsked] = useState<ExplainedAction>()
  const place = useRef<HTMLDivElement>(null)
  // Boards lead here; when the page is opened, this is not in it yet.
  useEffect(() => {
    if (window.location.hash === '#actions') place.current?.scrollIntoView()
  }, [])
  // Without one that is recommended, nothing has to be done.
  const { hostname, status, recommended_action: recommended } = of
  const { actions } = of.explanation
  const legal = actions.filter((a) => a.legal).sort((a, b) => (a.rank ?? 99) - (b.rank ?? 99))
  const others = actions.filter((a) => !a.legal)
  if (legal.length === 0 && isOver(status)) return null
  return (
    <div id="actions" ref={place} className="scroll-mt-4">
      <Card title="What can be done now">
        {!recommended && !isOver(status) && <p className="pb-3 text-sm text-muted">It continues automatically: you do not need to do anything.</p>}
        <ol className="flex flex-col divide-y divide-line">
          {legal.map((a) => (
            <Offer key={a.action} action={a} best={a.action === recommended} may={may(`${kind.noun}:manage`)} onAsk={() => setAsked(a)} />
          ))}
        </ol>
        {others.length > 0 && !isOver(status) && <NotNow actions={others} />}
      </Card>
      {asked && (
        <ReasonDialog
          title={`${actionTitle(asked.action)}: ${hostname}`}
          does={actionTitle(asked.action)}
          danger={asked.safety === 'destroys_data' || asked.action === 'cancel'}
          confirm={asked.safety === 'destroys_data' ? hostname : undefined}
          act={(reason) => recover(idOf(of), asked.action, reason)}
          onDone={() => {
            say(`${actionTitle(asked.action)}: requested for ${hostname}.`)
            void queries.invalidateQueries({ queryKey: [`${kind.noun}s`] })
          }}
          onClose={() => setAsked(undefined)}
        >
          <p>{asked.does}</p>
          {asked.safety !== 'safe' && (
            <p>
              <Badge tone={safety[asked.safety].tone}>{safety[asked.safety].text}</Badge>
            </p>
          )}
          <p className="text-xs text-muted">
            The same on the command line: <Code>{asked.command}</Code>
          </p>
        </ReasonDialog>
      )}
    </div>
  )
}

function Offer({ action, best, may, onAsk }: { action: ExplainedAction; best: boolean; may: boolean; onAsk: () => void }) {
  return (
    <li className="flex flex-wrap items-start justify-between gap-x-4 gap-y-2 py-3 first:pt-0 last:pb-0">
      <div className="min-w-0 flex-1 basis-64">
        <p className="flex flex-wrap items-center gap-2 text-sm font-medium">
          {actionTitle(action.action)}
          {best && <Badge tone="accent">recommended</Badge>}
          <Badge tone={safety[action.safety].tone}>{safety[action.safety].text}</Badge>
        </p>
        <p className="text-sm">{action.does}</p>
      </div>
      {may && (
        <Button look={best ? 'primary' : 'plain'} onClick={onAsk}>
          {actionTitle(action.action)} …
        </Button>
      )}
    </li>
  )
}

function NotNow({ actions }: { actions: ExplainedAction[] }) {
  return (
    <details className="mt-3 border-t border-line pt-3 text-sm">
      <summary className="text-muted">Not possible right now ({actions.length})</summary>
      <ul className="mt-2 flex flex-col gap-1.5">
        {actions.map((a) => (
          <li key={a.action} className="text-muted">
            <span className="font-medium">{actionTitle(a.action)}</span>: {a.does}
          </li>
        ))}
      </ul>
    </details>
  )
}
