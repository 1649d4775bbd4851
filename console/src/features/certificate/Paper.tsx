import { useQuery } from '@tanstack/react-query'
import { api, got } from '../../api/client'
import { useMay } from '../../app/session'
import { Badge, Button, Card, Code, Facts, Note, TextLink } from '../../ui/basics'
import { ProblemNote } from '../../ui/problem'
import { exact } from '../../ui/time'
import { words } from '../../ui/tone'
import { fileName, weak, type Signed } from './document'
import { keepFile } from './keepFile'
import { Access, Decisions, Gaps, Reported, Subjects, Validation } from './Parts'

/** Paper is a signed document in words, with how to verify it. */
export function Paper({ signed }: { signed: Signed }) {
  const { document: d } = signed
  const may = useMay()
  const before = weak(d)
  return (
    <div className="contents [overflow-wrap:anywhere]">
      {before.length > 0 && (
        <Note tone="warn" title="Read this before you rely on it">
          <ul className="list-disc pl-5">
            {before.map((text) => (
              <li key={text}>{text}</li>
            ))}
          </ul>
        </Note>
      )}
      <div className="grid gap-4 lg:grid-cols-2">
        <Card title="Node and machine">
          <Facts
            of={[
              ['Hostname', may('node:read') ? <TextLink key="n" to={`/nodes/${d.node.id}`}>{d.node.hostname}</TextLink> : d.node.hostname],
              ['Node', <Code key="i">{d.node.id}</Code>],
              ['SKU', d.node.sku],
              ['Region', d.node.region],
              ['MAAS machine', d.machine.system_id && <Code>{d.machine.system_id}</Code>],
              ...d.machine.serials.map((s): [string, string] => [`${s.part} ${s.name}`, `${s.value} (according to ${s.source})`]),
            ]}
          />
        </Card>
        <Card title="Turnover">
          <Facts
            of={[
              ['What', words(d.operation.mode)],
              ['Reason', d.operation.reason],
              ['Requested', `${d.operation.requested_by}, ${exact(d.operation.requested_at)}`],
              ['Started, ended', `${exact(d.operation.started_at)} – ${exact(d.operation.ended_at)}`],
              [
                'People involved',
                <ul key="a" className="flex flex-col gap-1">
                  {d.operation.actors.map((a) => (
                    <li key={a.name + a.at + a.did}>
                      {a.name}: {a.did}, {exact(a.at)}
                    </li>
                  ))}
                </ul>,
              ],
            ]}
          />
        </Card>
      </div>
      <Access access={d.access} installation={d.installation} />
      <Subjects of={d.subjects} />
      <Validation of={d.validation} />
      <Reported of={d.reported} />
      <Gaps of={d.not_covered} />
      <Decisions downgrades={d.downgrades} overrides={d.overrides} />
      <Signature signed={signed} />
    </div>
  )
}

function Signature({ signed }: { signed: Signed }) {
  const { document: d, signature } = signed
  const keys = useQuery({ queryKey: ['certificate-keys'], queryFn: () => got(api.GET('/api/v1/certificate-keys', { parseAs: 'text' })), staleTime: Infinity })
  const name = fileName(d)
  return (
    <Card title="Signature">
      <Facts
        of={[
          ['Algorithm', signature.algorithm],
          ['Key', <Code key="k">{signature.key_id}</Code>],
          ['Value', <Code key="v">{signature.value}</Code>],
          ['Format', <Code key="f">{d.format}</Code>],
          ['Previous document', d.previous.seq > 0 ? <span key="p">no. {d.previous.seq}, <Code>{d.previous.digest}</Code></span> : <Badge key="p">the first of this node</Badge>],
        ]}
      />
      <h3 className="mt-4 mb-1 text-sm font-semibold">Verify it without this control plane</h3>
      <ol className="list-decimal pl-5 text-sm">
        <li>Download the signed file above. Do not let a tool reformat it: the signature covers every byte.</li>
        <li>
          Get the public keys once, from a source you trust, and keep them next to the files.{' '}
          <Button className="my-1" disabled={!keys.data} onClick={() => keepFile('keys.json', keys.data ?? '')}>
            Download the public keys
          </Button>
        </li>
        <li>
          <Code>{`gpuaas certificate verify ${name} --keys keys.json`}</Code> needs no control plane, no sign-in and no network. Give it all files of a node, and it also reports missing ones.
        </li>
      </ol>
      {keys.error && <ProblemNote error={keys.error} onRetry={() => void keys.refetch()} />}
    </Card>
  )
}
