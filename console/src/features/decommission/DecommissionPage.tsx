import { useQuery, useQueryClient } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { api, got, type Schemas } from '../../api/client'
import { useParam } from '../../app/location'
import { useMay } from '../../app/session'
import { Card, Code, Facts, Loading, Note, Page, State, TextLink } from '../../ui/basics'
import { When } from '../../ui/time'
import { words } from '../../ui/tone'
import { Diagnostics, Explanation, Observed, WorkflowLink } from '../job/Explanation'
import { whileItLasts } from '../job/job'
import { Ledger } from '../job/Ledger'
import { useProfiles, useSites } from '../job/lookups'
import { largestPage, readAll } from '../../api/readall'
import { Outdated } from '../job/Outdated'
import { RecoveryActions } from '../job/RecoveryActions'
import { Standing } from '../job/Standing'
import { Timeline } from '../job/Timeline'
import { Who } from '../job/Who'
import { recover, useStages } from './decommission'
import { Evidence } from './Evidence'
import { FollowUps, OverrideOffer, Overrides } from './Overrides'
import { cleanupWords, eraseWords, modeWords, takesErase } from './modes'

type Detail = Schemas['DecommissionDetailView']

/** DecommissionPage is everything about one operation on a node: how it stands, what it proved, and what can be done. */
export default function DecommissionPage() {
  const id = useParam('decommissionId')
  const path = { decommission_id: id }
  const detail = useQuery({ queryKey: ['decommissions', id], queryFn: () => got(api.GET('/api/v1/admin/decommissions/{decommission_id}', { params: { path } })), refetchInterval: whileItLasts })
  const events = useQuery({ queryKey: ['decommissions', id, 'events'], queryFn: () => readAll((cursor) => got(api.GET('/api/v1/admin/decommissions/{decommission_id}/events', { params: { path, query: { cursor, page_size: largestPage } } }))) })
  const back = <TextLink to="/decommissions">Turnover</TextLink>
  const problem = <Outdated of={detail.error ? detail : events} />
  if (!detail.data) return <Page title="Turnover" back={back}>{detail.error ? problem : <Loading what="the operation" />}</Page>
  return <Shown of={detail.data} events={events.data?.rows ?? detail.data.events} problem={problem} />
}

function Shown({ of, events, problem }: { of: Detail; events: Detail['events']; problem: ReactNode }) {
  const may = useMay()
  const queries = useQueryClient()
  const stages = useStages(of.mode, of.site_id)
  const again = () => void queries.invalidateQueries({ queryKey: ['decommissions'] })
  const back = (
    <>
      <TextLink to="/decommissions">Turnover</TextLink>
      {of.batch_id && (
        <>
          {' / '}
          <TextLink to={`/decommission-batches/${of.batch_id}`}>its batch</TextLink>
        </>
      )}
    </>
  )
  return (
    <Page title={<>{modeWords(of.mode).title}: {of.hostname} <State of="job" is={of.status} /></>} back={back} lead={of.reason}>
      {problem}
      <Standing of={of} stages={stages} />
      <CertificateLink of={of} />
      <div className="grid gap-4 xl:grid-cols-[minmax(0,3fr)_minmax(0,2fr)]">
        <div className="flex min-w-0 flex-col gap-4">
          <Explanation of={of.explanation} failure={of.failure} seenAt={of.observed.at} />
          <FollowUps of={of.follow_ups} />
          <RecoveryActions actions={of.explanation.actions} recommended={of.recommended_action} hostname={of.hostname} status={of.status} may={may('decommission:manage')} act={(action, reason) => recover(of.decommission_id, action, reason)} onDone={again} />
          <OverrideOffer of={of} onDone={again} />
          <Timeline job={of} stages={stages} events={events} />
        </div>
        <div className="flex min-w-0 flex-col gap-4">
          <Overrides of={of.overrides} stages={stages} />
          {of.observed.at && <Observed of={of.observed} />}
          <About of={of} />
          <Diagnostics title="What was found out on failing" of={of.failure?.error_details} />
          <Diagnostics title="What stages found out" of={of.facts} />
        </div>
      </div>
      <Evidence id={of.decommission_id} stages={stages} />
      <Ledger events={events} stages={stages} />
    </Page>
  )
}

function CertificateLink({ of }: { of: Detail }) {
  const may = useMay()
  const found = useQuery({
    queryKey: ['certificates', 'of-decommission', of.decommission_id],
    queryFn: () => got(api.GET('/api/v1/admin/certificates', { params: { query: { node_id: of.node_id, page_size: largestPage } } })),
    enabled: may('certificate:read'),
  })
  const its = found.data?.items.find((c) => c.decommission_id === of.decommission_id)
  if (!its) return null
  return (
    <Note tone="ok" title={its.kind === 'handover_receipt' ? 'A handover receipt was issued' : 'A certificate was issued'} actions={<TextLink to={`/certificates/${its.certificate_id}`}>Read it</TextLink>}>
      Signed <When at={its.issued_at} /> with {its.key_id}; number {its.seq} of this node.
    </Note>
  )
}

function About({ of }: { of: Detail }) {
  const { sites } = useSites()
  const { profiles } = useProfiles(of.site_id ?? '')
  const lines: [string, ReactNode][] = [
    ['Node', <TextLink key="node" to={`/nodes/${of.node_id}`}>{of.hostname}</TextLink>],
    ['It was then', words(of.node_status_before)],
    ['Mode', modeWords(of.mode).what],
    ['Cleaning by the agent', of.storage_cleanup === 'none' ? '' : `${of.storage_cleanup}: ${cleanupWords[of.storage_cleanup]}`],
    ['Erasing by MAAS', takesErase(of.mode) ? `${of.erase}: ${eraseWords[of.erase]}` : ''],
    ['Site', of.site_id ? <TextLink key="site" to={`/sites/${of.site_id}`}>{sites.find((s) => s.site_id === of.site_id)?.name ?? of.site_id}</TextLink> : 'not a machine of MAAS'],
    ['Profile', profiles.find((p) => p.profile_id === of.profile_id)?.name ?? of.profile_id ?? ''],
    ['Machine in MAAS', of.maas_system_id && <Code key="system">{of.maas_system_id}</Code>],
    ['Adopted', of.adopted ? 'a state that was brought about outside was adopted' : ''],
    ['Asked for', <When key="asked" at={of.requested_at} exactly />],
    ['Asked for by', <Who key="who" id={of.requested_by} />],
    ['Started', of.started_at && <When key="started" at={of.started_at} exactly />],
    ['Ended', of.completed_at && <When key="ended" at={of.completed_at} exactly />],
    ['Workflow', <WorkflowLink key="workflow" id={of.workflow_id} />],
    ['Plan', <Code key="plan">{of.plan_hash}</Code>],
    ['Correlation id', <TextLink key="audit" to="/audit" search={{ correlation_id: of.correlation_id }}>{of.correlation_id}</TextLink>],
  ]
  return (
    <Card title="About this operation">
      <Facts of={lines.filter(([, v]) => v !== '' && v !== undefined)} />
    </Card>
  )
}
