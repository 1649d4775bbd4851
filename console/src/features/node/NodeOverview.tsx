import { useQuery } from '@tanstack/react-query'
import { api, got } from '../../api/client'
import { jobPath, jobWord } from '../../api/jobs'
import { useMay } from '../../app/session'
import { Badge, Card, Code, Facts, State, TextLink } from '../../ui/basics'
import { exact, useNow, When } from '../../ui/time'
import { words } from '../../ui/tone'
import { Tenant } from '../allocation/Tenant'
import { AgentState } from './AgentState'
import { agentBadge } from './agent'
import { Machine } from './Machine'
import { NodeJobs } from './NodeJobs'
import type { Known } from './queries'
import { hindrances } from './scheduling'
import { bytes } from './sizes'

/** NodeOverview is what one wants to know of a node first. */
export function NodeOverview({ node, past }: { node: Known; past: boolean }) {
  return (
    <div className="grid items-start gap-4 lg:grid-cols-2">
      <div className="flex min-w-0 flex-col gap-4">
        {!past && <Tenant nodeId={node.node_id} />}
        <Scheduling node={node} />
        <Identity node={node} past={past} />
      </div>
      <div className="flex min-w-0 flex-col gap-4">
        <Agent node={node} past={past} />
        <Machine node={node} past={past} />
      </div>
      {!past && <NodeJobs node={node} />}
    </div>
  )
}

function Identity({ node, past }: { node: Known; past: boolean }) {
  return (
    <Card title="Node">
      <Facts
        of={[
          ['State', <span key="s" className="inline-flex flex-wrap items-center gap-2"><State of="node" is={node.status} /> since <When at={node.status_changed_at} exactly /></span>],
          ['Hostname', node.hostname],
          ['Host', <Code key="h">{node.host}:{node.port}</Code>],
          ['SSH account', node.ssh_username],
          ['SKU', node.sku],
          ['GPUs', node.gpus_total],
          ['Region', node.region_code],
          ['Rack', node.rack],
          ['Pool', node.pool],
          ['Labels', Object.entries(node.labels).map(([key, value]) => `${key}=${value}`).sort().join(', ')],
          ['Added via', node.onboarding_mode === 'maas' ? 'onboarding through MAAS' : 'a command run on the machine'],
          ['Generation', node.generation],
          ['Added', <When key="c" at={node.created_at} exactly={past} />],
          ['Changed', <When key="u" at={node.updated_at} exactly={past} />],
        ]}
      />
    </Card>
  )
}

function Scheduling({ node }: { node: Known }) {
  const why = hindrances(node)
  return (
    <Card title="Scheduling">
      <div className="flex flex-col gap-3">
        <p className="flex flex-wrap items-center gap-2 text-sm">
          <Badge tone={node.schedulable ? 'ok' : 'warn'}>{node.schedulable ? 'schedulable' : 'not schedulable'}</Badge>
          {node.schedulable && 'New work may be placed on it.'}
        </p>
        {why.length > 0 && (
          <ul className="list-disc pl-5 text-sm">
            {why.map((h) => (
              <li key={h.text}>
                {h.job && (
                  <>
                    In use by {/^[aeiou]/.test(jobWord(h.job.kind)) ? 'an' : 'a'} <TextLink to={jobPath(h.job)}>{jobWord(h.job.kind)}</TextLink>
                  </>
                )}
                {!h.job && h.text}
              </li>
            ))}
          </ul>
        )}
        <Facts
          of={[
            ['Clean', node.tainted ? <Badge key="t" tone="warn">not proven clean</Badge> : node.root?.accepted_at ? <Badge key="a" tone="warn">risk accepted, not proven</Badge> : node.clean_at ? 'proven' : 'no tenant had access'],
            ['Known access', node.root ? (
              <Badge key="r" tone={node.root.accepted_at ? 'warn' : 'bad'} title={node.root.compromised ? 'Whoever had root may have changed this installation. Reimage the node before you trust it.' : undefined}>
                {`root (${node.root.cause.replaceAll('_', ' ')}), ${exact(node.root.at)}`}
              </Badge>
            ) : node.taint_kind],
            ['Risk accepted', node.root?.residual_risk],
            ['Installed', node.installed_at ? exact(node.installed_at) : undefined],
            ['Tainted', node.tainted_at ? exact(node.tainted_at) : undefined],
            ['Last clean validation', node.clean_at ? exact(node.clean_at) : undefined],
          ]}
        />
      </div>
    </Card>
  )
}

function Agent({ node, past }: { node: Known; past: boolean }) {
  const { agent } = node
  const may = useMay()
  // What drift there is depends on what is wanted now: the control plane computes it.
  const now = useQuery({
    queryKey: ['nodes', 'page', node.node_id, 'agent'],
    queryFn: () => got(api.GET('/api/v1/admin/nodes/{node_id}/agent-lifecycle', { params: { path: { node_id: node.node_id } } })),
    enabled: !past && may('node:read'),
  })
  const a = past ? agent : (now.data ?? agent)
  const build = a.reported_agent_version ? `${a.reported_agent_version} (${a.reported_agent_commit || 'commit unknown'})` : undefined
  return (
    <Card title="Agent">
      <Facts
        of={[
          ['State', <span key="b" className="flex flex-wrap items-center gap-2"><AgentState agent={a} /><span className="text-xs text-muted">{agentBadge(a).explanation}</span></span>],
          ['Reported version', build],
          ['Desired version', `${a.wanted_agent_version || 'any'} · channel ${a.agent_channel}`],
          ['Update method', a.desired_delivery_mode.replaceAll('_', ' ')],
          ['Update path', a.update_path_because ? <span key="u">{a.update_path_because}</span> : words(a.update_path)],
          ['Last contact', past ? 'not recorded in the history' : <When key="l" at={node.last_agent_contact_at} />],
          ['Process', !past && a.started_at ? <span key="p">{a.memory_bytes !== undefined && `${bytes(a.memory_bytes)}, `}started <When at={a.started_at} /></span> : undefined],
          ['Certificate expires', a.certificate_not_after ? <CertificateEnd key="c" at={a.certificate_not_after} past={past} /> : 'no certificate'],
          ['Verifiers', a.verifier_version ? `version ${a.verifier_version}` : undefined],
          ['Last update', a.last_delivery_result ? <span key="d">{a.last_delivery_result} <When at={a.last_delivery_attempt_at} exactly={past} /></span> : 'never tried'],
          ['Instance', a.agent_instance ? <Code key="i">{a.agent_instance}</Code> : undefined],
        ]}
      />
    </Card>
  )
}

function CertificateEnd({ at, past }: { at: string; past: boolean }) {
  const ended = Date.parse(at) < useNow()
  return (
    <span className="inline-flex flex-wrap items-center gap-2">
      <When at={at} exactly={past} />
      {!past && ended && <Badge tone="bad">expired</Badge>}
      {!past && <span className="text-xs text-muted">{exact(at)}</span>}
    </span>
  )
}
