import { useRef, useState, type ReactNode } from 'react'
import { Button, Note } from './basics'
import { Copy } from './copy'
import { Dialog } from './dialog'

/** ShownOnce shows a secret that cannot be shown again. */
export function ShownOnce({ title, secret, children, onClose }: { title: ReactNode; secret: string; children?: ReactNode; onClose: () => void }) {
  const ref = useRef<HTMLPreElement>(null)
  const [warned, setWarned] = useState(false)
  return (
    // A key pressed in passing must not lose what cannot be shown again.
    <Dialog title={title} onClose={() => setWarned(true)}>
      <div className="flex flex-col gap-4">
        <Note tone="warn" title="Copy it now: it is shown this once and cannot be shown again.">
          {children}
        </Note>
        {/* eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- what scrolls has to be reachable by keyboard */}
        <pre ref={ref} tabIndex={0} data-testid="secret" className="overflow-x-auto rounded-md border border-line bg-raised p-3 font-mono text-xs break-all whitespace-pre-wrap">
          {secret}
        </pre>
        {warned && (
          <p role="alert" className="text-sm text-warn">
            Have you saved it? Then close this with the button below.
          </p>
        )}
        <div className="flex flex-wrap justify-between gap-2">
          <Copy text={secret} from={() => ref.current} />
          <Button look="primary" onClick={onClose}>
            I have saved it
          </Button>
        </div>
      </div>
    </Dialog>
  )
}
