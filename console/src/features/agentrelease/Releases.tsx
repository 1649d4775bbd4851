import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api, got, type Schemas } from '../../api/client'
import { usePages } from '../../api/pages'
import { useMay } from '../../app/session'
import { Badge, Card, Empty, Facts, Loading } from '../../ui/basics'
import { ReasonDialog } from '../../ui/dialog'
import { ProblemNote } from '../../ui/problem'
import { RowButton } from '../../ui/rowbutton'
import { Table, type Column } from '../../ui/table'
import { When } from '../../ui/time'
import { say } from '../../ui/toast'

type Release = Schemas['AgentreleaseView']
type Channel = Schemas['AgentreleaseChannelView']['channel']
type Asked = { release: Release; verb: 'withdraw' | 'block' | Channel }

const key = 'agent-releases'

/** useReleases is all releases, the newest first. */
export const useReleases = () => usePages([key, 'list'], (cursor) => got(api.GET('/api/v1/admin/agent-releases', { params: { query: { cursor } } })))

/** Releases is what nodes can be given, and which of it each channel wants. */
export function Releases() {
  const may = useMay()
  const releases = useReleases()
  const channels = useQuery({ queryKey: [key, 'channels'], queryFn: () => got(api.GET('/api/v1/admin/agent-channels')) })
  const refused = useQuery({ queryKey: [key, 'refused'], queryFn: () => got(api.GET('/api/v1/admin/agent-versions')) })
  const [asked, setAsked] = useState<Asked>()
  const manage = may('agent_release:manage')
  const columns: Column<Release>[] = [
    { key: 'version', title: 'Version', width: 'minmax(7rem,1fr)', cell: (r) => <span title={`commit ${r.commit}`} className="font-medium">{r.version}</span> },
    { key: 'status', title: 'Status', width: '7rem', cell: (r) => <span title={r.because}><Badge tone={r.status === 'available' ? 'ok' : 'bad'}>{r.status}</Badge></span> },
    { key: 'channels', title: 'Wanted by', width: '9rem', cell: (r) => r.channels.join(', ') || '–' },
    { key: 'nodes', title: 'Nodes', width: '5rem', align: 'right', cell: (r) => r.nodes },
    { key: 'notes', title: 'Notes', width: 'minmax(10rem,2fr)', cell: (r) => <span title={r.because || r.notes}>{r.because || r.notes}</span> },
    { key: 'uploaded', title: 'Uploaded', width: '8rem', cell: (r) => <When at={r.created_at} /> },
    ...(manage ? [{ key: 'act', title: 'Actions', width: '25rem', cell: (r: Release) => <Acts release={r} onAsk={(verb) => setAsked({ release: r, verb })} /> }] : []),
  ]
  return (
    <Card title="Releases">
      <div className="flex flex-col gap-4">
        {[releases.error, channels.error, refused.error].map((e, i) => e && <ProblemNote key={i} error={e} onRetry={() => [releases.retry, () => void channels.refetch(), () => void refused.refetch()][i]?.()} />)}
        <Facts
          of={[
            ...(channels.data?.items ?? []).map((c): [string, React.ReactNode] => [`Channel ${c.channel}`, c.version ? <span key={c.channel} title={c.reason}>{c.version}{c.previous && <span className="text-muted"> (before: {c.previous})</span>}</span> : 'wants no release']),
            ['Oldest that is given', refused.data?.floor.version || 'any'],
            ['Blocked versions', refused.data?.blocked.map((b) => b.version).join(', ') || 'none'],
          ]}
        />
        {releases.loading ? (
          <Loading what="releases" />
        ) : (
          !releases.error && <Table label="Releases" columns={columns} rows={releases.rows} rowKey={(r) => r.version} more={releases.more} empty={<Empty title="There is no release yet">Build, sign and upload one with the command line: gpuaas agent release build, then gpuaas agent release upload.</Empty>} />
        )}
      </div>
      {asked && <Ask asked={asked} onClose={() => setAsked(undefined)} />}
    </Card>
  )
}

function Acts({ release: r, onAsk }: { release: Release; onAsk: (verb: Asked['verb']) => void }) {
  if (r.status !== 'available') return null
  return (
    <span className="flex gap-2">
      {(['candidate', 'stable'] as const).filter((c) => !r.channels.includes(c)).map((c) => <RowButton key={c} label={`Promote ${r.version} to ${c}`} text={`To ${c} …`} onClick={() => onAsk(c)} />)}
      <RowButton label={`Block ${r.version}`} text="Block …" onClick={() => onAsk('block')} />
      <RowButton label={`Withdraw ${r.version}`} text="Withdraw …" onClick={() => onAsk('withdraw')} />
    </span>
  )
}

function Ask({ asked: { release, verb }, onClose }: { asked: Asked; onClose: () => void }) {
  const queries = useQueryClient()
  const { version } = release
  const done = (said: string) => () => {
    say(said)
    void queries.invalidateQueries({ queryKey: [key] })
    void queries.invalidateQueries({ queryKey: ['agents'] })
  }
  if (verb === 'withdraw') {
    return (
      <ReasonDialog title={`Withdraw ${version}`} does="Withdraw it" danger confirm={version} act={(reason) => got(api.POST('/api/v1/admin/agent-releases/{version}/withdraw', { params: { path: { version } }, body: { reason } }))} onDone={done(`Release ${version} is withdrawn.`)} onClose={onClose}>
        <p>No node is ever given it again; this cannot be undone. Channels that want it return to the version that they wanted before, and its rollouts pause. Nodes that run it keep it.</p>
      </ReasonDialog>
    )
  }
  if (verb === 'block') {
    return (
      <ReasonDialog title={`Block ${version}`} does="Block it" danger act={(reason) => got(api.POST('/api/v1/admin/agent-versions/block', { body: { version, reason } }))} onDone={done(`Version ${version} is blocked.`)} onClose={onClose}>
        <p>No node is given it until somebody unblocks it with gpuaas agent release unblock {version}. Channels that want it return to the version that they wanted before, and its rollouts pause. Nodes that run it keep it.</p>
      </ReasonDialog>
    )
  }
  return (
    <ReasonDialog title={`Promote ${version} to ${verb}`} does="Promote" act={(reason) => got(api.PUT('/api/v1/admin/agent-channels/{channel}', { params: { path: { channel: verb } }, body: { version, reason } }))} onDone={done(`Channel ${verb} wants ${version}.`)} onClose={onClose}>
      <p>Nodes of the channel that run another version are shown as outdated from now on. Nothing is installed by this: roll the release out.</p>
    </ReasonDialog>
  )
}
