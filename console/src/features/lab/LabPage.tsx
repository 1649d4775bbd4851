import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { useMay } from '../../app/session'
import { Badge, Button, Card, Code, Empty, Facts, LinkButton, Loading, Note, Page, TextLink } from '../../ui/basics'
import { TextField } from '../../ui/form'
import { ProblemNote } from '../../ui/problem'
import { DemoSiteButton, useLab } from './DemoSite'
import { freeMachines, labQuery, machinesQuery, takenQuery, type Lab } from './lab'
import { Machines } from './Machines'

const none: ReadonlySet<string> = new Set()

/** LabPage shows the simulated data centre, and lets things happen in it. */
export default function LabPage() {
  const may = useMay()
  const lab = useQuery({ ...labQuery, enabled: may('site:manage') })
  if (lab.isLoading) return <Loading what="the lab" />
  return (
    <Page title="Virtual lab" lead="A simulated data centre beside this control plane: a MAAS and its machines, with real agents on them. Try everything here, and break it on purpose.">
      {lab.error && <ProblemNote error={lab.error} onRetry={() => void lab.refetch()} />}
      {!lab.error && !lab.data && (
        <Empty title="There is no lab here">
          A lab is there only when the control plane was started with <Code>gpuaas up</Code> and a rack, and only platform administrators see it.
        </Empty>
      )}
      {lab.data && <OpenLab lab={lab.data} />}
    </Page>
  )
}

function OpenLab({ lab }: { lab: Lab }) {
  const { site, missing } = useLab()
  const machines = useQuery(machinesQuery)
  const taken = useQuery({ ...takenQuery, refetchInterval: 5_000 })
  return (
    <>
      {missing && (
        <Note tone="accent" title="No site stands for the lab yet" actions={<DemoSiteButton />}>
          The control plane knows the machines only through a site. Create the demo site first, then onboard machines.
        </Note>
      )}
      <div className="grid items-start gap-4 lg:grid-cols-2">
        <Card title="What it is">
          <Facts
            of={[
              ['Site', site ? <TextLink key="s" to="/sites/$siteId" params={{ siteId: site.site_id }}>{site.name}</TextLink> : missing ? <Badge key="n" tone="warn">none yet</Badge> : ''],
              ['MAAS', <Code key="m">{lab.maas_url}</Code>],
              ['Machines', `${lab.machines}, each a ${lab.kind === 'lxd' ? 'container' : 'process'} of this host`],
              ['SKU', lab.sku],
              ['Image', lab.image],
            ]}
          />
        </Card>
        {site && <OnboardCard free={machines.data && taken.data && freeMachines(machines.data, taken.data).length} />}
      </div>
      {(machines.error ?? taken.error) && <ProblemNote error={machines.error ?? taken.error} onRetry={() => void Promise.all([machines.refetch(), taken.refetch()])} />}
      {machines.isPending && <Loading what="machines" />}
      {machines.data && <Machines machines={machines.data} taken={taken.data ?? none} site={site} readAt={machines.dataUpdatedAt} />}
    </>
  )
}

function OnboardCard({ free }: { free?: number }) {
  const [chosen, setChosen] = useState<string>()
  const may = useMay()
  if (free === undefined || !may('onboarding:manage')) return null
  const typed = chosen ?? String(Math.min(10, free))
  const n = Number(typed)
  const possible = /^\d+$/.test(typed) && n >= 1 && n <= free
  return (
    <Card title="Onboard machines">
      {free === 0 ? (
        <p className="text-sm text-muted">Every machine is in use. Fully decommission a node to free its machine.</p>
      ) : (
        <div className="flex flex-wrap items-start gap-3">
          <div className="w-44">
            <TextField label="How many" type="number" value={typed} onChange={setChosen} hint={`${free} are free.`} error={possible ? undefined : `must be 1 to ${free}`} />
          </div>
          <div className="sm:pt-6">
            {possible ? (
              <LinkButton look="primary" to="/onboardings/new" search={{ lab: String(n) }}>
                Onboard {n} {n === 1 ? 'machine' : 'machines'}
              </LinkButton>
            ) : (
              <Button look="primary" disabled>
                Onboard machines
              </Button>
            )}
          </div>
        </div>
      )}
    </Card>
  )
}
