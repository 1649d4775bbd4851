import { useQueryClient } from '@tanstack/react-query'
import { useState, type ReactNode } from 'react'
import { api, got, type Schemas } from '../../api/client'
import { usePages } from '../../api/pages'
import { useMay } from '../../app/session'
import { useNodeNames } from '../agenttask/nodeNames'
import { Badge, Button, Code, Empty, Facts, Loading, Note, Page, TextLink } from '../../ui/basics'
import { CheckField } from '../../ui/form'
import { ReasonDialog } from '../../ui/dialog'
import { ProblemNote } from '../../ui/problem'
import { When } from '../../ui/time'
import { say } from '../../ui/toast'
import type { Tone } from '../../ui/tone'

type Signer = Schemas['SignerView']

const tones: Record<Signer['status'], Tone> = { staged: 'info', active: 'ok', grace: 'warn', retired: 'idle', revoked: 'bad' }

const meanings: Record<Signer['status'], string> = {
  staged: 'Made known to nodes; signs nothing yet.',
  active: 'Signs every task.',
  grace: 'Signs no more; nodes still accept what it has signed.',
  retired: 'Its grace period is over; nobody accepts it.',
  revoked: 'All trust was taken from it; nodes refuse it by name.',
}

const order: Signer['status'][] = ['active', 'staged', 'grace', 'retired', 'revoked']

type Asked = { what: 'rotate' } | { what: 'rollback' } | { what: 'revoke'; signer: Signer }

/** Signers is the keys that tasks are signed with. */
export default function Signers() {
  const may = useMay()
  const [asked, setAsked] = useState<Asked>()
  const pages = usePages(['signers'], (cursor) => got(api.GET('/api/v1/admin/signers', { params: { query: { cursor, page_size: 50 } } })), { refetchInterval: 10_000 })
  const rows = [...pages.rows].sort((a, b) => order.indexOf(a.status) - order.indexOf(b.status) || b.published_at.localeCompare(a.published_at))
  const grace = rows.some((s) => s.status === 'grace')
  return (
    <Page
      title="Task signers"
      lead="Every task that a node carries out is signed by the one active signer. Nodes learn to accept a new one before it signs, so a rotation stops nothing."
      actions={
        may('signer:manage') && (
          <>
            <Button onClick={() => setAsked({ what: 'rollback' })} disabled={!grace} title={grace ? undefined : 'No signer is in its grace period: there is none to go back to.'}>
              Roll back …
            </Button>
            <Button look="primary" onClick={() => setAsked({ what: 'rotate' })}>
              Rotate …
            </Button>
          </>
        )
      }
    >
      {pages.error && <ProblemNote error={pages.error} onRetry={pages.retry} />}
      {pages.loading && <Loading what="signers" />}
      {!pages.loading && !pages.error && rows.length === 0 && <Empty title="There is no signer yet">It is made when a process with role api or worker starts and reaches the secrets engine. See System health.</Empty>}
      {rows.map((s) => (
        <SignerCard key={s.id} signer={s} onRevoke={may('signer:manage') && ['staged', 'active', 'grace'].includes(s.status) ? () => setAsked({ what: 'revoke', signer: s }) : undefined} />
      ))}
      {pages.hasMore && (
        <Button className="self-start" disabled={!pages.more} onClick={pages.more}>
          Show more
        </Button>
      )}
      {asked && <Ask asked={asked} rotating={rows.some((s) => s.status === 'staged')} onClose={() => setAsked(undefined)} />}
    </Page>
  )
}

function SignerCard({ signer: s, onRevoke }: { signer: Signer; onRevoke?: () => void }) {
  return (
    <article aria-label={`Signer ${s.id}`} className="rounded-lg border border-line bg-surface px-4 py-3">
      <header className="mb-2 flex flex-wrap items-center gap-2">
        <h2 className="font-mono text-sm font-semibold">{s.id}</h2>
        <Badge tone={tones[s.status]}>{s.status}</Badge>
        <span className="text-sm text-muted">{meanings[s.status]}</span>
        {onRevoke && (
          <Button className="ml-auto" onClick={onRevoke}>
            Revoke …
          </Button>
        )}
      </header>
      {s.waiting_for && <Waiting of={s} />}
      <Facts
        of={[
          ['Published', <When key="p" at={s.published_at} />],
          ['Signs since', s.effective_at && <When at={s.effective_at} />],
          ...(s.retires_at ? ([['Grace ends', <When key="r" at={s.retires_at} />]] as [string, ReactNode][]) : []),
          ...(s.finished_at ? ([['Ended', <When key="f" at={s.finished_at} />]] as [string, ReactNode][]) : []),
          ['Verifiers', `part of the set since version ${s.verifier_version}`],
          ['Public key', <Code key="k">{s.public_key}</Code>],
        ]}
      />
    </article>
  )
}

function Waiting({ of: s }: { of: Signer }) {
  const nameOf = useNodeNames()
  const w = s.waiting_for
  if (!w || (w.nodes_behind === 0 && !w.grace_of)) return null
  return (
    <div className="mb-2">
      <Note tone="warn" title={s.status === 'staged' ? 'It does not sign yet' : 'Not every node knows it'}>
        {w.nodes_behind > 0 && (
          <p>
            {w.nodes_behind} {w.nodes_behind === 1 ? 'node does' : 'nodes do'} not accept it yet:{' '}
            {w.nodes.map((id, i) => (
              <span key={id}>
                {i > 0 && ', '}
                <TextLink to={`/nodes/${id}`}>{nameOf(id)}</TextLink>
              </span>
            ))}
            {w.nodes_behind > w.nodes.length && ' and others'}. See whether their agents are connected.
          </p>
        )}
        {w.grace_of && (
          <p>
            The grace period of <Code>{w.grace_of}</Code> must end first{w.grace_ends_at && <>, <When at={w.grace_ends_at} /></>}.
          </p>
        )}
      </Note>
    </div>
  )
}

function Ask({ asked, onClose, ...shown }: { asked: Asked; rotating: boolean; onClose: () => void }) {
  const [rotating] = useState(shown.rotating) // as it was when this was asked
  const queries = useQueryClient()
  const [force, setForce] = useState(false)
  const done = (text: string) => () => {
    say(text)
    void queries.invalidateQueries({ queryKey: ['signers'] })
  }
  const forced = <CheckField value={force} onChange={setForce} label="Do not wait for nodes" hint="Those that do not know the next signer refuse tasks until they renew their certificate, within a day, or are bootstrapped again." />
  if (asked.what === 'rollback') {
    return (
      <ReasonDialog title="Roll back to the signer in grace" does="Roll back" act={(reason) => got(api.POST('/api/v1/admin/signers/rollback', { body: { reason } }))} onDone={done('Rolled back.')} onClose={onClose}>
        <p>The active signer and the one in grace change places at once. Nodes need not be told. The newer one is retired when its grace period ends, unless you roll back again.</p>
      </ReasonDialog>
    )
  }
  if (asked.what === 'rotate') {
    return (
      <ReasonDialog title="Rotate the task signer" does={rotating ? 'Bring it to its end' : 'Rotate'} danger={force} act={(reason) => got(api.POST('/api/v1/admin/signers/rotate', { body: { reason, force } }))} onDone={done('A new signer is staged.')} onClose={onClose}>
        {rotating && <Note tone="warn" title="A rotation is in progress">It waits for nodes. Tick the box to bring it to its end now.</Note>}
        <p>A new key is made and made known to all nodes. It begins to sign when all of them accept it; the present one then goes into grace, and is retired a day later.</p>
        {forced}
      </ReasonDialog>
    )
  }
  const { signer } = asked
  return (
    <ReasonDialog
      title={`Revoke signer ${signer.id}`}
      does="Revoke"
      danger
      confirm={signer.id}
      act={(reason) => got(api.POST('/api/v1/admin/signers/{signer_id}/revoke', { params: { path: { signer_id: signer.id } }, body: { reason, force } }))}
      onDone={done(`${signer.id} is revoked.`)}
      onClose={onClose}
    >
      <p>All nodes are told to refuse it by name. That cannot be undone. Do it when the key may have leaked.</p>
      {signer.status === 'active' && (
        <>
          <p>It signs now. Another takes over in the same moment: the staged one if all nodes accept it, otherwise the one in grace. If there is neither, it is refused; rotate first.</p>
          {forced}
        </>
      )}
    </ReasonDialog>
  )
}
