import { enums } from '../../api/gen/enums'
import { useNavigate } from '@tanstack/react-router'
import { api, got, type Schemas } from '../../api/client'
import { usePages } from '../../api/pages'
import { useSearchState } from '../../app/location'
import { OnlyOfNode } from '../agenttask/OnlyOfNode'
import { Badge, Empty, LinkButton, Loading, Page, TextLink } from '../../ui/basics'
import { SelectField } from '../../ui/form'
import { ProblemNote } from '../../ui/problem'
import { Table, type Column } from '../../ui/table'
import { exact, When } from '../../ui/time'
import { outcomeTone, words } from '../../ui/tone'
import { kindWords } from './document'

type Certificate = Schemas['CertificateView']

const kinds = enums['list-certificates.kind']
const outcomes = enums['list-certificates.outcome']

const columns: Column<Certificate>[] = [
  { key: 'issued', title: 'Issued', width: '7rem', cell: (c) => <When at={c.issued_at} /> },
  { key: 'exact', title: 'On', width: '13rem', cell: (c) => exact(c.issued_at) },
  { key: 'kind', title: 'Kind', width: '10rem', cell: (c) => <Badge tone={c.kind === 'certificate' ? 'accent' : 'info'}>{kindWords[c.kind]}</Badge> },
  { key: 'node', title: 'Node', width: 'minmax(8rem, 1fr)', cell: (c) => <TextLink to={`/certificates/${c.certificate_id}`}>{c.hostname}</TextLink> },
  { key: 'seq', title: 'No.', width: '4rem', align: 'right', cell: (c) => c.seq },
  { key: 'mode', title: 'After', width: '10rem', cell: (c) => words(c.mode) },
  { key: 'outcome', title: 'Outcome', width: '7rem', cell: (c) => <Badge tone={outcomeTone[c.outcome]}>{words(c.outcome)}</Badge> },
  { key: 'digest', title: 'Digest', width: 'minmax(12rem, 1.5fr)', cell: (c) => <span className="font-mono text-xs">{c.digest}</span> },
]

/** Certificates is the signed documents about cleaned nodes. */
export default function Certificates() {
  const [search, change] = useSearchState()
  const navigate = useNavigate()
  const { node } = search
  const kind = kinds.find((k) => k === search.kind)
  const outcome = outcomes.find((o) => o === search.outcome)
  const pages = usePages(['certificates', 'list', kind, outcome, node], (cursor) => got(api.GET('/api/v1/admin/certificates', { params: { query: { kind, outcome, node_id: node, cursor, page_size: 100 } } })))
  return (
    <Page title="Certificates" lead="Signed documents that state how a node was cleaned and how that was verified. You can verify them without this control plane.">
      <div className="grid items-end gap-3 sm:grid-cols-3 lg:grid-cols-5">
        <SelectField label="Kind" value={kind ?? ''} onChange={(k) => change({ kind: k })} options={[{ value: '', label: 'all' }, ...kinds.map((k) => ({ value: k, label: kindWords[k] }))]} />
        <SelectField label="Outcome" value={outcome ?? ''} onChange={(o) => change({ outcome: o })} options={[{ value: '', label: 'all' }, ...outcomes.map((o) => ({ value: o, label: words(o) }))]} />
        {node && <OnlyOfNode node={node} onAll={() => change({ node: undefined })} />}
      </div>
      {pages.error && <ProblemNote error={pages.error} onRetry={pages.retry} />}
      {pages.loading && <Loading what="certificates" />}
      {!pages.loading && !(pages.error && pages.rows.length === 0) && (
        <Table
          label="Certificates"
          columns={columns}
          rows={pages.rows}
          rowKey={(c) => c.certificate_id}
          onOpen={(c) => void navigate({ to: `/certificates/${c.certificate_id}` })}
          more={pages.more}
          stale={pages.stale}
          empty={
            kind || outcome || node ? (
              <Empty title="No certificate matches these filters">Remove a filter to see more.</Empty>
            ) : (
              <Empty title="No certificates yet" action={<LinkButton to="/decommissions">Go to turnover</LinkButton>}>
                A certificate is issued when a node has been reimaged, retired or decommissioned, and a handover receipt after a soft reset.
              </Empty>
            )
          }
        />
      )}
    </Page>
  )
}
