import { useMutation, useQuery } from '@tanstack/react-query'
import { api, got } from '../../api/client'
import { Badge, Button, Card, Code, Loading, TextLink } from '../../ui/basics'
import { ProblemNote } from '../../ui/problem'
import { When } from '../../ui/time'
import { outcomeTone, words } from '../../ui/tone'
import { keepFile } from '../certificate/keepFile'
import { isOver, momentWords, receiptFile, type Allocation, type Receipt } from './allocation'

/** Receipts is what a tenant can prove: that the node was clean when it came, and that its own data is gone. */
export function Receipts({ allocation: a }: { allocation: Allocation }) {
  const path = { project_id: a.project_id, allocation_id: a.allocation_id }
  const read = useQuery({ queryKey: ['allocations', 'receipts', a.allocation_id, a.status], queryFn: () => got(api.GET('/api/v1/projects/{project_id}/allocations/{allocation_id}/receipts', { params: { path } })) })
  const receipts = read.data?.items ?? []
  const first = receipts[0]
  return (
    <Card title="Receipts">
      {read.error && <ProblemNote error={read.error} onRetry={() => void read.refetch()} />}
      {read.isPending && <Loading what="receipts" />}
      {read.data && receipts.length === 0 && !a.active_at && <p className="text-sm text-muted">{isOver(a) ? 'There are none.' : 'You get the first receipt with the node, and the second when it has been cleaned after your release.'}</p>}
      <ul className="flex flex-col divide-y divide-line">
        {receipts.map((r) => (
          <One key={r.certificate_id + r.moment} allocation={a} receipt={r} />
        ))}
      </ul>
      {a.active_at && read.data && !receipts.some((r) => r.moment === 'handover') && <p className="py-2 text-sm text-muted">There is no receipt for the time before you, because the node's last job was not a cleaning after a tenant.</p>}
      {first && <Verify file={receiptFile(a, first)} />}
    </Card>
  )
}

function One({ allocation: a, receipt: r }: { allocation: Allocation; receipt: Receipt }) {
  const path = { project_id: a.project_id, allocation_id: a.allocation_id, certificate_id: r.certificate_id }
  // It is signed byte by byte: it is kept as it came.
  const keeping = useMutation({
    mutationFn: () => got(api.GET('/api/v1/projects/{project_id}/allocations/{allocation_id}/receipts/{certificate_id}', { params: { path }, parseAs: 'text' })),
    onSuccess: (text) => keepFile(receiptFile(a, r), text),
  })
  return (
    <li className="flex flex-wrap items-center gap-x-3 gap-y-1 py-2 text-sm">
      <div className="min-w-0 flex-1">
        <p>
          <TextLink to={`/allocations/${a.allocation_id}/receipts/${r.certificate_id}`}>{momentWords[r.moment]}</TextLink> <Badge tone={outcomeTone[r.outcome]}>{words(r.outcome)}</Badge>
        </p>
        <p className="text-xs text-muted">
          issued <When at={r.issued_at} />
        </p>
        {keeping.error && <ProblemNote error={keeping.error} />}
      </div>
      <Button busy={keeping.isPending} aria-label={`Download the receipt: ${momentWords[r.moment]}`} onClick={() => keeping.mutate()}>
        Download
      </Button>
    </li>
  )
}

function Verify({ file }: { file: string }) {
  const keeping = useMutation({ mutationFn: () => got(api.GET('/api/v1/certificate-keys', { parseAs: 'text' })), onSuccess: (text) => keepFile('keys.json', text) })
  return (
    <div className="mt-2 flex flex-wrap items-center gap-x-3 gap-y-2 border-t border-line pt-3 text-sm">
      <p className="min-w-0 flex-1 text-muted">
        To verify one without this control plane: <Code>{`gpuaas certificate verify ${file} --keys keys.json`}</Code>
      </p>
      <Button busy={keeping.isPending} onClick={() => keeping.mutate()}>
        Download the public keys
      </Button>
      {keeping.error && <ProblemNote error={keeping.error} />}
    </div>
  )
}
