import { api, got, type Schemas } from '../../api/client'
import { largestPage } from '../../api/readall'
import { useParam } from '../../app/location'
import { Code, TextLink } from '../../ui/basics'
import { AboutJob, useWhere, type Fact } from '../job/AboutJob'
import { Explanation, Observed } from '../job/Explanation'
import { JobPage, JobReading, type JobRead } from '../job/JobPage'
import { RecoveryActions } from '../job/RecoveryActions'
import { onboarding, recover, useStages } from './onboarding'

type Detail = Schemas['OnboardingDetailView']

/** OnboardingPage is everything about one onboarding: how it stands, why, and what can be done. */
export default function OnboardingPage() {
  const id = useParam('onboardingId')
  const path = { onboarding_id: id }
  return (
    <JobReading
      kind={onboarding}
      id={id}
      read={() => got(api.GET('/api/v1/admin/onboardings/{onboarding_id}', { params: { path } }))}
      readEvents={(cursor) => got(api.GET('/api/v1/admin/onboardings/{onboarding_id}/events', { params: { path, query: { cursor, page_size: largestPage } } }))}
      show={Shown}
    />
  )
}

function Shown(read: JobRead<Detail>) {
  const { of } = read
  const stages = useStages(of.site_id)
  const facts = (
    <>
      <Observed of={of.observed} />
      <About of={of} />
    </>
  )
  return (
    <JobPage kind={onboarding} {...read} stages={stages} title={of.hostname} facts={facts}>
      <Explanation of={of} />
      <RecoveryActions kind={onboarding} of={of} recover={recover} />
    </JobPage>
  )
}

function About({ of }: { of: Detail }) {
  const own: Fact[] = [
    ['Node', <Becomes key="node" of={of} />],
    ...useWhere(of),
    ['SKU', of.sku_id],
    ['BMC', <Code key="bmc">{of.ipmi_ip}</Code>],
    ['PXE interface', of.pxe_mac && <Code key="mac">{of.pxe_mac}</Code>],
    ['Machine in MAAS', of.maas_system_id && <Code key="system">{of.maas_system_id}</Code>],
    ['Disks', of.initialize_disks ? <span key="disks" className="font-medium text-bad">all but the root disk are formatted at the first boot</span> : 'only the root disk is touched'],
  ]
  return <AboutJob kind={onboarding} of={of} own={own} last={['Epoch', of.epoch]} />
}

// One that was cancelled may have left a node behind, or none.
function Becomes({ of }: { of: Detail }) {
  if (of.status === 'cancelled') {
    return (
      <TextLink to="/nodes" search={{ q: of.hostname }}>
        look for {of.hostname}
      </TextLink>
    )
  }
  const is = of.status === 'completed' || of.status === 'reconciled'
  return <TextLink to={`/nodes/${of.node_id}`}>{is ? of.hostname : 'the node it becomes'}</TextLink>
}
