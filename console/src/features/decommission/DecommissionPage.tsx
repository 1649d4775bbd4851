import { useQuery, useQueryClient } from '@tanstack/react-query'
import { api, got, type Schemas } from '../../api/client'
import { largestPage } from '../../api/readall'
import { useParam } from '../../app/location'
import { useMay } from '../../app/session'
import { Code, Note, TextLink } from '../../ui/basics'
import { When } from '../../ui/time'
import { words } from '../../ui/tone'
import { AboutJob, useWhere, type Fact } from '../job/AboutJob'
import { Explanation, Observed } from '../job/Explanation'
import { JobPage, JobReading, type JobRead } from '../job/JobPage'
import { RecoveryActions } from '../job/RecoveryActions'
import { recover, turnover, useStages } from './decommission'
import { Evidence } from './Evidence'
import { FollowUps, OverrideOffer, Overrides } from './Overrides'
import { cleanupWords, eraseWords, modeWords, takesErase } from './modes'

type Detail = Schemas['DecommissionDetailView']

/** DecommissionPage is everything about one operation on a node: how it stands, what it proved, and what can be done. */
export default function DecommissionPage() {
  const id = useParam('decommissionId')
  const path = { decommission_id: id }
  return (
    <JobReading
      kind={turnover}
      id={id}
      read={() => got(api.GET('/api/v1/admin/decommissions/{decommission_id}', { params: { path } }))}
      readEvents={(cursor) => got(api.GET('/api/v1/admin/decommissions/{decommission_id}/events', { params: { path, query: { cursor, page_size: largestPage } } }))}
      show={Shown}
    />
  )
}

function Shown(read: JobRead<Detail>) {
  const { of } = read
  const queries = useQueryClient()
  const stages = useStages(of.mode, of.site_id)
  const facts = (
    <>
      <Overrides of={of.overrides} stages={stages} />
      {of.observed.at && <Observed of={of.observed} />}
      <About of={of} />
    </>
  )
  return (
    <JobPage kind={turnover} {...read} stages={stages} title={`${modeWords(of.mode).title}: ${of.hostname}`} lead={of.reason} result={<CertificateLink of={of} />} facts={facts} evidence={<Evidence id={of.decommission_id} stages={stages} />}>
      <Explanation of={of} />
      <FollowUps of={of.follow_ups} />
      <RecoveryActions kind={turnover} of={of} recover={recover} />
      <OverrideOffer of={of} onDone={() => void queries.invalidateQueries({ queryKey: ['decommissions'] })} />
    </JobPage>
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
  const own: Fact[] = [
    ['Node', <TextLink key="node" to={`/nodes/${of.node_id}`}>{of.hostname}</TextLink>],
    ['State before', words(of.node_status_before)],
    ['Mode', modeWords(of.mode).what],
    ['Cleaned by the agent', of.storage_cleanup === 'none' ? '' : `${of.storage_cleanup}: ${cleanupWords[of.storage_cleanup]}`],
    ['Erased by MAAS', takesErase(of.mode) ? `${of.erase}: ${eraseWords[of.erase]}` : ''],
    ...useWhere(of),
    ['Machine in MAAS', of.maas_system_id && <Code key="system">{of.maas_system_id}</Code>],
  ]
  return <AboutJob kind={turnover} of={of} own={own} last={['Plan', <Code key="plan">{of.plan_hash}</Code>]} />
}
