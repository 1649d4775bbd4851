import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { useMay } from '../../app/session'
import { Badge, Button, Code, Facts, LinkButton, Note, Spinner } from '../../ui/basics'
import { Dialog } from '../../ui/dialog'
import { ProblemNote } from '../../ui/problem'
import type { Tone } from '../../ui/tone'
import { ProbeResult } from '../site/ProbeResult'
import { allSitesQuery, probeQuery, type Site } from '../site/siteQueries'
import { advanced, firstSteps, makeDemoSite, siteOfLab, type Made, type Step } from './siteOfLab'
import { labQuery, sameAddress, type Lab } from './lab'

/** useLab is the lab, and the site that stands for it when there is one that is set up. */
export function useLab(): { lab?: Lab | null; site?: Site; missing: boolean } {
  const manage = useMay()('site:manage')
  const lab = useQuery({ ...labQuery, enabled: manage })
  const sites = useQuery({ ...allSitesQuery, enabled: manage && !!lab.data })
  const site = lab.data && sites.data ? siteOfLab(sites.data, lab.data) : undefined
  const complete = site && lab.data && sameAddress(site.api_base_url, lab.data.maas_url) && site.api_token.has_credentials
  return { lab: lab.data, site: complete ? site : undefined, missing: !!lab.data && !!sites.data && !complete }
}

/** DemoSiteOffer offers the demo site where there is a lab that no site stands for. */
export function DemoSiteOffer() {
  const { lab, missing } = useLab()
  if (!lab || !missing) return null
  return (
    <Note tone="accent" title="A virtual data centre runs beside this control plane" actions={<DemoSiteButton />}>
      {lab.machines} simulated machines wait behind a MAAS of their own. Make a site of it to try everything without hardware.
    </Note>
  )
}

/** DemoSiteButton leads to where the demo site is made; it is not there when nothing is to be made. */
export function DemoSiteButton() {
  const { lab, missing } = useLab()
  if (!lab || !missing) return null
  return (
    <LinkButton look="primary" to="/sites" search={{ demo: 'new' }}>
      Create the demo site
    </LinkButton>
  )
}

/** DemoSite is the dialog that makes the demo site, on the page of the sites. It stays when the site is there, and says what is next. */
export function DemoSite({ onClose }: { onClose: () => void }) {
  const { lab } = useLab()
  return lab ? <DemoSiteDialog lab={lab} onClose={onClose} /> : null
}

function DemoSiteDialog({ lab, onClose }: { lab: Lab; onClose: () => void }) {
  const queries = useQueryClient()
  const [steps, setSteps] = useState(firstSteps)
  const making = useMutation({
    mutationFn: () => {
      setSteps(firstSteps)
      return makeDemoSite(lab, (key, state, said) => setSteps((before) => advanced(before, key, state, said)))
    },
    onSuccess: ({ site, probe }) => queries.setQueryData(probeQuery(site.site_id).queryKey, probe),
    onSettled: () => Promise.all(['sites', 'fleet', 'drift'].map((key) => queries.invalidateQueries({ queryKey: [key] }))),
  })
  const begun = !making.isIdle
  return (
    <Dialog title="Create the demo site" onClose={onClose}>
      <div className="flex flex-col gap-4">
        {!begun && <WhatWillBeMade lab={lab} />}
        {begun && <Progress steps={steps} />}
        {making.error && <ProblemNote error={making.error} />}
        {making.data && <Next made={making.data} machines={lab.machines} />}
        {!making.data && (
          <div className="flex justify-end gap-2">
            <Button onClick={onClose} disabled={making.isPending}>
              Cancel
            </Button>
            <Button look="primary" busy={making.isPending} onClick={() => making.mutate()}>
              {making.error ? 'Try again' : 'Create it'}
            </Button>
          </div>
        )}
      </div>
    </Dialog>
  )
}

function WhatWillBeMade({ lab }: { lab: Lab }) {
  const sites = useQuery(allSitesQuery)
  const there = sites.data && siteOfLab(sites.data, lab)
  return (
    <>
      {there && !sameAddress(there.api_base_url, lab.maas_url) && (
        <Note tone="warn" title={`A site ${there.name} is there already`}>
          It points to <Code>{there.api_base_url}</Code>, as after a lab that was started again. It will be changed to the address below.
        </Note>
      )}
      <p className="text-sm">
        A site <strong>{lab.name}</strong> for the simulated MAAS beside this control plane, ready for onboarding. Nothing outside this machine is touched, and you can delete it again.
      </p>
      <Facts
        of={[
          ['Site', `${lab.name}, region ${lab.region_code}`],
          ['MAAS', <Code key="m">{lab.maas_url}</Code>],
          ['Machines', `${lab.machines}, simulated`],
          ['Credentials', 'the throw-away ones of the simulation'],
          ['Default profile', `deploys ${lab.image}, ${lab.max_parallel} machines at once`],
        ]}
      />
    </>
  )
}

const looks: Record<Step['state'], [tone: Tone, word: string]> = { waiting: ['idle', 'waiting'], running: ['info', 'running'], done: ['ok', 'done'], failed: ['bad', 'failed'] }

function Progress({ steps }: { steps: Step[] }) {
  return (
    <ol aria-label="Progress" aria-live="polite" className="divide-y divide-line rounded-md border border-line">
      {steps.map((s) => {
        const [tone, word] = looks[s.state]
        return (
          <li key={s.key} className="grid grid-cols-[5rem_minmax(0,1fr)] gap-3 px-3 py-2 text-sm">
            <span>
              <Badge tone={tone}>
                {s.state === 'running' && <Spinner />} {word}
              </Badge>
            </span>
            <span>
              <span className="font-medium">{s.title}</span>
              {s.said && <span className="block text-muted">{s.said}</span>}
            </span>
          </li>
        )
      })}
    </ol>
  )
}

function Next({ made: { site, probe }, machines }: { made: Made; machines: number }) {
  const batch = String(Math.min(10, machines))
  return (
    <>
      {!probe.ok && <ProbeResult probe={probe} />}
      {probe.ok && (
        <Note tone="ok" title={`Site ${site.name} is ready for work`}>
          Next: onboard machines, and watch them become nodes.
        </Note>
      )}
      <div className="flex flex-wrap justify-end gap-2">
        <LinkButton to="/sites/$siteId" params={{ siteId: site.site_id }}>
          Open the site
        </LinkButton>
        <LinkButton look="primary" to="/onboardings/new" search={{ lab: batch }}>
          Onboard {batch} machines
        </LinkButton>
      </div>
    </>
  )
}
