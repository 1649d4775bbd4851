import { useRef, useState } from 'react'
import type { Schemas } from '../../api/client'
import { Button, Code, Facts, LinkButton, Note } from '../../ui/basics'
import { CheckField } from '../../ui/form'
import { exact, When } from '../../ui/time'
import { Copy } from '../../ui/copy'

/** Bootstrap shows what makes a machine part of the fleet. It is a secret, and shown this once. */
export function Bootstrap({ bootstrap, nodeId, recovery, warned, onClose }: { bootstrap: Schemas['NodeBootstrapView']; nodeId?: string; /** It is for a node whose agent had a certificate. */ recovery?: boolean; /** Somebody tried to close what cannot be shown again. */ warned: boolean; onClose: () => void }) {
  const [kept, setKept] = useState(false)
  const place = useRef<HTMLDivElement>(null)
  const text = bootstrap.command ?? bootstrap.user_data ?? bootstrap.token
  return (
    <div className="flex flex-col gap-4">
      <Note tone="warn" title="This is shown once">
        {recovery ? 'It gives the agent of this node a new certificate' : 'It lets one machine join the fleet'}, works once and expires <When at={bootstrap.expires_at} /> ({exact(bootstrap.expires_at)}). You can issue a new one on the page of the node.
      </Note>
      <div>
        <p className="mb-1 text-sm font-medium">{bootstrap.command ? 'Run this on the machine, as root' : 'Give the machine this user data for its first boot'}</p>
        <div ref={place}>
          <Code block>{text}</Code>
        </div>
        <div className="mt-2">
          <Copy text={text} from={() => place.current} label={bootstrap.command ? 'Copy the command' : 'Copy the user data'} />
        </div>
      </div>
      <Facts of={[['CA fingerprint', <Code key="ca">{bootstrap.ca_fingerprint}</Code>]]} />
      {warned && !kept && (
        <p role="alert" className="text-sm text-warn">
          Have you copied it? Tick the box below, then close this.
        </p>
      )}
      <div className="flex flex-wrap items-center justify-between gap-3">
        <CheckField label="I have copied it" value={kept} onChange={setKept} />
        <div className="flex gap-2">
          {nodeId && kept && (
            <LinkButton look="primary" to="/nodes/$nodeId" params={{ nodeId }}>
              Open the node
            </LinkButton>
          )}
          <Button disabled={!kept} onClick={onClose}>
            Close
          </Button>
        </div>
      </div>
    </div>
  )
}
