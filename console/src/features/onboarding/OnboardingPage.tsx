import { useQuery, useQueryClient } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { api, got, type Schemas } from '../../api/client'
import { useParam } from '../../app/location'
import { useMay } from '../../app/session'
import { Card, Code, Facts, Loading, Page, State, TextLink } from '../../ui/basics'
import { When } from '../../ui/time'
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
import { recover, useStages } from './onboarding'

type Detail = Schemas['OnboardingDetailView']

/** OnboardingPage is everything about one onboarding: how it stands, why, and what can be done. */
export default function OnboardingPage() {
  const id = useParam('onboardingId')
  const path = { onboarding_id: id }
  const detail = useQuery({ queryKey: ['onboardings', id], queryFn: () => got(api.GET('/api/v1/admin/onboardings/{onboarding_id}', { params: { path } })), refetchInterval: whileItLasts })
  const events = useQuery({ queryKey: ['onboardings', id, 'events'], queryFn: () => readAll((cursor) => got(api.GET('/api/v1/admin/onboardings/{onboarding_id}/events', { params: { path, query: { cursor, page_size: largestPage } } }))) })
  const back = <TextLink to="/onboardings">Onboarding</TextLink>
  const problem = <Outdated of={detail.error ? detail : events} />
  if (!detail.data) return <Page title="Onboarding" back={back}>{detail.error ? problem : <Loading what="the onboarding" />}</Page>
  return <Shown of={detail.data} events={events.data?.rows ?? detail.data.events} problem={problem} />
}

function Shown({ of, events, problem }: { of: Detail; events: Detail['events']; problem: ReactNode }) {
  const may = useMay()
  const queries = useQueryClient()
  const stages = useStages(of.site_id)
  const back = (
    <>
      <TextLink to="/onboardings">Onboarding</TextLink>
      {of.batch_id && (
        <>
          {' / '}
          <TextLink to={`/onboarding-batches/${of.batch_id}`}>its batch</TextLink>
        </>
      )}
    </>
  )
  return (
    <Page title={<>{of.hostname} <State of="job" is={of.status} /></>} back={back}>
      {problem}
      <Standing of={of} stages={stages} />
      <div className="grid gap-4 xl:grid-cols-[minmax(0,3fr)_minmax(0,2fr)]">
        <div className="flex min-w-0 flex-col gap-4">
          <Explanation of={of.explanation} failure={of.failure} seenAt={of.observed.at} />
          <RecoveryActions
            actions={of.explanation.actions}
            recommended={of.recommended_action}
            hostname={of.hostname}
            status={of.status}
            may={may('onboarding:manage')}
            act={(action, reason) => recover(of.onboarding_id, action, reason)}
            onDone={() => void queries.invalidateQueries({ queryKey: ['onboardings'] })}
          />
          <Timeline job={of} stages={stages} events={events} />
        </div>
        <div className="flex min-w-0 flex-col gap-4">
          <Observed of={of.observed} />
          <About of={of} />
          <Diagnostics title="What was found out on failing" of={of.failure?.error_details} />
          <Diagnostics title="What stages found out" of={of.facts} />
        </div>
      </div>
      <Ledger events={events} stages={stages} />
    </Page>
  )
}

function About({ of }: { of: Detail }) {
  const { sites } = useSites()
  const { profiles } = useProfiles(of.site_id)
  const lines: [string, ReactNode][] = [
    ['Node', <TextLink key="node" to={`/nodes/${of.node_id}`}>{of.status === 'completed' || of.status === 'reconciled' ? of.hostname : 'the node it becomes'}</TextLink>],
    ['Site', <TextLink key="site" to={`/sites/${of.site_id}`}>{sites.find((s) => s.site_id === of.site_id)?.name ?? of.site_id}</TextLink>],
    ['Profile', profiles.find((p) => p.profile_id === of.profile_id)?.name ?? of.profile_id],
    ['SKU', of.sku_id],
    ['BMC', <Code key="bmc">{of.ipmi_ip}</Code>],
    ['PXE interface', of.pxe_mac && <Code key="mac">{of.pxe_mac}</Code>],
    ['Machine in MAAS', of.maas_system_id && <Code key="system">{of.maas_system_id}</Code>],
    ['Disks', of.initialize_disks ? <span key="disks" className="font-medium text-bad">all but the root disk are formatted at the first boot</span> : 'only the root disk is touched'],
    ['Adopted', of.adopted ? 'a state that was brought about outside was adopted' : ''],
    ['Asked for', <When key="asked" at={of.requested_at} exactly />],
    ['Asked for by', <Who key="who" id={of.requested_by} />],
    ['Started', of.started_at && <When key="started" at={of.started_at} exactly />],
    ['Ended', of.completed_at && <When key="ended" at={of.completed_at} exactly />],
    ['Workflow', <WorkflowLink key="workflow" id={of.workflow_id} />],
    ['Epoch', of.epoch],
    ['Correlation id', <TextLink key="audit" to="/audit" search={{ correlation_id: of.correlation_id }}>{of.correlation_id}</TextLink>],
  ]
  return (
    <Card title="About this onboarding">
      <Facts of={lines.filter(([, v]) => v !== '' && v !== undefined)} />
    </Card>
  )
}
