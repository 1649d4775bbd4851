import { useQuery } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { useMay } from '../../app/session'
import { Card, LinkButton } from '../../ui/basics'
import { labQuery } from '../lab/lab'

/** Teach stands where the fleet will be: how a first node comes to it. */
export function Teach({ sites }: { sites: number }) {
  const may = useMay()
  const lab = useQuery({ ...labQuery, enabled: may('site:manage') })
  const manages = may('site:manage') && may('onboarding:manage')
  return (
    <div className="flex flex-col gap-4">
      <Card title="There are no nodes yet">
        {!manages && <p className="text-sm text-muted">As soon as an operator onboards machines, this page shows the state of the fleet.</p>}
        {manages && (
          <ol className="grid gap-6 md:grid-cols-3">
            <Step number={1} title="Create a site" done={sites > 0} action={<LinkButton look={sites > 0 ? 'plain' : 'primary'} to={sites > 0 ? '/sites' : '/sites/new'}>{sites > 0 ? 'Your sites' : 'Create a site'}</LinkButton>}>
              A site is a MAAS region and the settings for reaching its machines. Credentials are checked as you enter them.
            </Step>
            <Step number={2} title="Onboard machines" action={<LinkButton look={sites > 0 ? 'primary' : 'plain'} to="/onboardings/new">Onboard machines</LinkButton>}>
              Paste a list of machines. Each is commissioned, installed, checked and enrolled, and you can follow along on a board.
            </Step>
            <Step number={3} title="Or add a node by hand" action={<LinkButton to="/nodes" search={{ add: '1' }}>Add a node</LinkButton>}>
              For a machine that already runs an operating system: run one command on it as root.
            </Step>
          </ol>
        )}
      </Card>
      {lab.data && (
        <Card title="Try it without hardware">
          <div className="flex flex-wrap items-center justify-between gap-4">
            <p className="max-w-2xl text-sm text-muted">
              A simulated data centre with {lab.data.machines} machines runs beside this control plane. Create its site, onboard ten machines, break one and recover it.
            </p>
            <LinkButton look="primary" to="/virtual-lab">
              Open the virtual lab
            </LinkButton>
          </div>
        </Card>
      )}
    </div>
  )
}

function Step({ number, title, done, action, children }: { number: number; title: string; done?: boolean; action: ReactNode; children: ReactNode }) {
  return (
    <li className="flex flex-col items-start gap-2">
      <h3 className="text-sm font-semibold">
        {number}. {title} {done && <span className="font-normal text-ok">· done</span>}
      </h3>
      <p className="flex-1 text-sm text-muted">{children}</p>
      {action}
    </li>
  )
}
