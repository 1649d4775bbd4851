import { useNavigate } from '@tanstack/react-router'
import { api, got } from '../../api/client'
import { usePages } from '../../api/pages'
import { Badge, Card, Empty, Loading, TextLink } from '../../ui/basics'
import { ProblemNote } from '../../ui/problem'
import { Table, type Column } from '../../ui/table'
import { When } from '../../ui/time'
import { countWords, placeWords, rolloutsKey, toneOfStatus, type Rollout } from './rollout'

const pageOf = (r: Rollout) => `/agents/rollouts/${r.rollout_id}`

const columns: Column<Rollout>[] = [
  { key: 'version', title: 'Version', width: 'minmax(7rem,1fr)', cell: (r) => <TextLink to={pageOf(r)}>{r.version}</TextLink> },
  { key: 'status', title: 'Status', width: '7rem', cell: (r) => <Badge tone={toneOfStatus(r.status)}>{r.status}</Badge> },
  { key: 'wave', title: 'At', width: '9rem', cell: placeWords },
  { key: 'nodes', title: 'Nodes', width: 'minmax(10rem,1.5fr)', cell: (r) => <span title={countWords(r.counts)}>{countWords(r.counts)}</span> },
  { key: 'because', title: 'Because', width: 'minmax(10rem,2fr)', cell: (r) => <span title={r.paused_because}>{r.paused_because}</span> },
  { key: 'began', title: 'Began', width: '8rem', cell: (r) => <When at={r.created_at} /> },
]

/** Rollouts is which releases are on their way, and were. */
export function Rollouts() {
  const navigate = useNavigate()
  const list = usePages([rolloutsKey, 'list'], (cursor) => got(api.GET('/api/v1/admin/agent-rollouts', { params: { query: { cursor } } })), { refetchInterval: 15_000 })
  return (
    <Card title="Rollouts">
      {list.error && <ProblemNote error={list.error} onRetry={list.retry} />}
      {list.loading ? (
        <Loading what="rollouts" />
      ) : (
        !list.error && <Table label="Rollouts" columns={columns} rows={list.rows} rowKey={(r) => r.rollout_id} onOpen={(r) => void navigate({ to: pageOf(r) })} more={list.more} empty={<Empty title="Nothing was rolled out yet">A rollout brings a release to a few canaries of every kind first, then to waves of nodes. If too many nodes fail, the rollout pauses, and nodes return to their previous version as its plan says.</Empty>} />
      )}
    </Card>
  )
}
