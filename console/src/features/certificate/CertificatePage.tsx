import { useQuery } from '@tanstack/react-query'
import { api, got } from '../../api/client'
import { useParam } from '../../app/location'
import { Button, LinkButton, Loading, Page, TextLink } from '../../ui/basics'
import { ProblemNote } from '../../ui/problem'
import { exact } from '../../ui/time'
import { fileName, kindWords, type Signed } from './document'
import { keepFile } from './keepFile'
import { Paper } from './Paper'

/** CertificatePage is a certificate as a document that can be read; the file that is signed can be kept from here. */
export default function CertificatePage() {
  const id = useParam('certificateId')
  // The file is signed byte by byte: it is read as text, so that what is kept is what was issued.
  const file = useQuery({
    queryKey: ['certificates', 'one', id],
    queryFn: () => got(api.GET('/api/v1/admin/certificates/{certificate_id}', { params: { path: { certificate_id: id } }, parseAs: 'text' })),
    staleTime: Infinity,
  })
  const signed = file.data ? (JSON.parse(file.data) as Signed) : undefined
  const d = signed?.document
  return (
    <Page
      back={<TextLink to="/certificates">Certificates</TextLink>}
      title={d ? `${kindWords[d.kind]} no. ${d.seq} of ${d.node.hostname}` : 'Certificate'}
      lead={d && `Issued by ${d.issuer} on ${exact(d.issued_at)}.`}
      actions={
        d && (
          <>
            <LinkButton to={`/decommissions/${d.operation.decommission_id}`}>The turnover</LinkButton>
            <Button look="primary" onClick={() => keepFile(fileName(d), file.data ?? '')}>
              Download the signed file
            </Button>
          </>
        )
      }
    >
      {file.error && <ProblemNote error={file.error} onRetry={() => void file.refetch()} />}
      {file.isPending && <Loading what="the certificate" />}
      {signed && <Paper signed={signed} />}
    </Page>
  )
}
