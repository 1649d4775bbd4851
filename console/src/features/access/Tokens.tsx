import { useQueryClient, type QueryKey } from '@tanstack/react-query'
import { useState } from 'react'
import type { Schemas } from '../../api/client'
import { usePages } from '../../api/pages'
import { Badge, Button, Card, Loading } from '../../ui/basics'
import { ProblemNote } from '../../ui/problem'
import { useNow, When } from '../../ui/time'
import { say } from '../../ui/toast'
import { ConfirmDialog } from '../../ui/confirm'
import { NewToken, type NewTokenBody } from './NewToken'

type Token = Schemas['IdentityTokenView']

type Props = {
  title: string
  lead: string
  queryKey: QueryKey
  /** The token of this session. */
  current?: string
  /** What a new one can be narrowed to. */
  scopes: string[]
  mayManage: boolean
  list: (cursor: string | undefined) => Promise<{ items: Token[]; next_cursor?: string }>
  create: (body: NewTokenBody) => Promise<Schemas['IdentityNewTokenView']>
  revoke: (tokenId: string) => Promise<unknown>
}

/** Tokens is the tokens of somebody: made here, shown once, revoked here. */
export function Tokens({ title, lead, queryKey, current, scopes, mayManage, list, create, revoke }: Props) {
  const queries = useQueryClient()
  const [making, setMaking] = useState(false)
  const [revoking, setRevoking] = useState<Token>()
  const pages = usePages(queryKey, list)
  const readAnew = () => void queries.invalidateQueries({ queryKey })
  return (
    <Card title={title} actions={mayManage && <Button onClick={() => setMaking(true)}>New token …</Button>}>
      <p className="mb-2 text-sm text-muted">{lead}</p>
      {pages.error && <ProblemNote error={pages.error} onRetry={pages.retry} />}
      {pages.loading && <Loading what="tokens" />}
      {!pages.loading && !pages.error && pages.rows.length === 0 && <p className="text-sm">There is none yet.</p>}
      <ul className="flex flex-col divide-y divide-line">
        {[...pages.rows].sort((a, b) => rank(a, current) - rank(b, current) || b.created_at.localeCompare(a.created_at)).map((t) => (
          <Row key={t.token_id} token={t} current={t.token_id === current} onRevoke={mayManage ? () => setRevoking(t) : undefined} />
        ))}
      </ul>
      {pages.hasMore && (
        <Button className="mt-2" disabled={!pages.more} onClick={pages.more}>
          Show more
        </Button>
      )}
      {making && <NewToken scopes={scopes} create={create} onDone={readAnew} onClose={() => setMaking(false)} />}
      {revoking && (
        <ConfirmDialog
          title={`Revoke ${revoking.name}`}
          does="Revoke"
          danger
          act={() => revoke(revoking.token_id)}
          onDone={() => {
            say(`${revoking.name} is revoked.`)
            readAnew()
          }}
          onClose={() => setRevoking(undefined)}
        >
          <p>Whatever uses it is refused from now on. That cannot be undone.</p>
          {revoking.token_id === current && <p className="font-medium text-bad">You are signed in with it: this ends your session.</p>}
        </ConfirmDialog>
      )}
    </Card>
  )
}

// Tokens that programs use before sessions, which end by themselves within hours.
const rank = (t: Token, current?: string) => (t.token_id === current ? 0 : t.kind === 'api' ? 1 : 2)

const soon = 7 * 86_400_000

function Row({ token: t, current, onRevoke }: { token: Token; current: boolean; onRevoke?: () => void }) {
  const left = Date.parse(t.expires_at) - useNow()
  return (
    <li className="flex flex-wrap items-center gap-x-3 gap-y-1 py-2 text-sm">
      <div className="min-w-0 flex-1">
        <p className="flex flex-wrap items-center gap-2">
          <span className="font-medium break-words">{t.name}</span>
          <Badge>{t.kind === 'session' ? 'session' : 'API token'}</Badge>
          {current && <Badge tone="accent">this session</Badge>}
          {left <= 0 ? <Badge tone="bad">expired</Badge> : t.kind === 'api' && left < soon && <Badge tone="warn">ends soon</Badge>}
        </p>
        <p className="text-xs text-muted">
          Made <When at={t.created_at} /> · ends <When at={t.expires_at} /> · {t.last_used_at ? <>last used <When at={t.last_used_at} /></> : 'never used'}
        </p>
        {(t.kind === 'api' || t.scopes.length > 0) && <p className="text-xs text-muted">{t.scopes.length > 0 ? `Narrowed to ${t.scopes.join(', ')}` : 'All that its owner may do'}</p>}
      </div>
      {onRevoke && <Button onClick={onRevoke}>Revoke …</Button>}
    </li>
  )
}
