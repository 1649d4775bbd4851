import type { ReactNode } from 'react'
import { Card, Facts, TextLink } from '../../ui/basics'
import { When } from '../../ui/time'
import { WorkflowLink } from './Explanation'
import type { Job, Kind } from './job'
import { useProfiles, useSiteName } from './lookups'
import { Who } from './Who'

export type Fact = [name: string, value: ReactNode]

/** useWhere is the facts of where something is done: the site and the profile. */
export function useWhere({ site_id, profile_id }: { site_id?: string; profile_id?: string }): Fact[] {
  const siteName = useSiteName()
  const { profiles } = useProfiles(site_id ?? '')
  return [
    ['Site', site_id ? <TextLink key="site" to={`/sites/${site_id}`}>{siteName(site_id)}</TextLink> : 'none (the machine is not in MAAS)'],
    ['Profile', profiles.find((p) => p.profile_id === profile_id)?.name ?? profile_id],
  ]
}

/** AboutJob is what is known of a job: what only its kind has, and how it went. */
export function AboutJob({ kind, of, own, last }: { kind: Kind; of: Job; own: Fact[]; last: Fact }) {
  const lines: Fact[] = [
    ...own,
    ['Adopted', of.adopted ? 'gpuaas adopted a state that somebody else had set' : ''],
    ['Requested', <When key="asked" at={of.requested_at} exactly />],
    ['Requested by', <Who key="who" id={of.requested_by} />],
    ['Started', of.started_at && <When key="started" at={of.started_at} exactly />],
    ['Ended', of.completed_at && <When key="ended" at={of.completed_at} exactly />],
    ['Workflow', <WorkflowLink key="workflow" id={of.workflow_id} />],
    last,
    ['Correlation id', <TextLink key="audit" to="/audit" search={{ correlation_id: of.correlation_id }}>{of.correlation_id}</TextLink>],
  ]
  return (
    <Card title={`About this ${kind.job.toLowerCase()}`}>
      <Facts of={lines.filter(([, v]) => v !== '' && v !== undefined)} />
    </Card>
  )
}
