import { useQuery } from '@tanstack/react-query'
import { api, got } from '../../api/client'
import { useParam } from '../../app/location'
import { Button, Loading, Page, TextLink } from '../../ui/basics'
import { ProblemNote } from '../../ui/problem'
import { exact } from '../../ui/time'
import { fileName, kindWords, type Signed } from '../certificate/document'
import { keepFile } from '../certificate/keepFile'
import { Paper } from '../certificate/Paper'
import { called } from './allocation'
import { allocationQuery } from './queries'

/** ReceiptPage is a receipt of an allocation as a document that can be read. */
export default function ReceiptPage() {
  const id = useParam('allocationId')
  const certificateId = useParam('certificateId')
  const allocation = useQuery(allocationQuery(id))
  const a = allocation.data
  const file = useQuery({
    queryKey: ['certificates', 'receipt', id, certificateId],
    queryFn: () => got(api.GET('/api/v1/projects/{project_id}/allocations/{allocation_id}/receipts/{certificate_id}', { params: { path: { project_id: a?.project_id ?? '', allocation_id: id, certificate_id: certificateId } }, parseAs: 'text' })),
    enabled: a !== undefined,
    staleTime: Infinity,
  })
  const signed = file.data ? (JSON.parse(file.data) as Signed) : undefined
  const d = signed?.document
  const error = allocation.error ?? file.error
  return (
    <Page
      back={<TextLink to={`/allocations/${id}`}>{a ? called(a) : 'Allocation'}</TextLink>}
      title={d ? `${kindWords[d.kind]} no. ${d.seq} of ${d.node.hostname}` : 'Receipt'}
      lead={d && `Issued by ${d.issuer} on ${exact(d.issued_at)}.`}
      actions={
        d && (
          <Button look="primary" onClick={() => keepFile(fileName(d), file.data ?? '')}>
            Download the signed file
          </Button>
        )
      }
    >
      {error && <ProblemNote error={error} onRetry={() => void (allocation.error ? allocation.refetch() : file.refetch())} />}
      {!error && !signed && <Loading what="the receipt" />}
      {signed && <Paper signed={signed} />}
    </Page>
  )
}
