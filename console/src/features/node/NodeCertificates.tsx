import { useNavigate } from '@tanstack/react-router'
import { api, got, type Schemas } from '../../api/client'
import { usePages } from '../../api/pages'
import { Badge, Code, Empty, Loading } from '../../ui/basics'
import { ProblemNote } from '../../ui/problem'
import { Table, type Column } from '../../ui/table'
import { When } from '../../ui/time'
import { outcomeTone, words } from '../../ui/tone'
import type { Detail } from './queries'

type Certificate = Schemas['CertificateView']

const columns: Column<Certificate>[] = [
  { key: 'seq', title: 'No.', width: '4rem', align: 'right', cell: (c) => c.seq },
  { key: 'kind', title: 'Kind', width: 'minmax(9rem, 1fr)', cell: (c) => words(c.kind) },
  { key: 'mode', title: 'After', width: 'minmax(9rem, 1fr)', cell: (c) => words(c.mode) },
  { key: 'outcome', title: 'Outcome', width: '7rem', cell: (c) => <Badge tone={outcomeTone[c.outcome]}>{words(c.outcome)}</Badge> },
  { key: 'issued', title: 'Issued', width: 'minmax(8rem, 1fr)', cell: (c) => <When at={c.issued_at} /> },
  { key: 'key', title: 'Signed with', width: 'minmax(8rem, 1fr)', cell: (c) => <Code>{c.key_id}</Code> },
  { key: 'digest', title: 'SHA-256', width: 'minmax(14rem, 3fr)', cell: (c) => <Code>{c.digest}</Code> },
]

/** NodeCertificates is the signed evidence of what was cleaned on a node. */
export function NodeCertificates({ node }: { node: Detail }) {
  const navigate = useNavigate()
  const list = usePages(['certificates', 'of-node', node.node_id], (cursor) => got(api.GET('/api/v1/admin/nodes/{node_id}/certificates', { params: { path: { node_id: node.node_id }, query: { cursor } } })))
  if (list.loading) return <Loading what="certificates" />
  return (
    <div className="flex flex-col gap-3">
      {list.error && <ProblemNote error={list.error} onRetry={list.retry} />}
      <Table
        label="Certificates of the node"
        columns={columns}
        rows={list.rows}
        rowKey={(c) => c.certificate_id}
        more={list.more}
        onOpen={(c) => void navigate({ to: '/certificates/$certificateId', params: { certificateId: c.certificate_id } })}
        empty={!list.error && <Empty title="No certificates yet">A certificate says what was cleaned and what was not. One is issued after each reimage, retirement and full decommission, and a handover receipt after each soft reset.</Empty>}
      />
    </div>
  )
}
