import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useCallback, useEffect, useMemo, useRef, useState } from 'react'
import { api, asRefusal, got, type Schemas } from '../../api/client'
import { useSearchState } from '../../app/location'
import { useMay, useMe } from '../../app/session'
import { Button, Card, Empty, LinkButton, Loading, Note, Page, TextLink } from '../../ui/basics'
import { ConfirmDialog } from '../../ui/confirm'
import { CheckField, SelectField, TextField } from '../../ui/form'
import { ProblemNote } from '../../ui/problem'
import { say } from '../../ui/toast'
import { sameAddress } from '../lab/lab'
import { useProfiles, useSites, useSkus } from '../job/lookups'
import { useTypedFor } from '../job/typed'
import { MachineRows } from './MachineRows'
import { asText, machinesOf, parseMachines } from './machines'
import { blocked, wholePreflight } from './preflight'
import { PreflightResult } from './PreflightResult'
import { useLabMachines, type FromLab } from './useLabMachines'

type Asked = Schemas['OnboardingNewBatchBody']

const back = <TextLink to="/onboardings">Onboarding</TextLink>

/** NewOnboarding asks for one machine or a thousand in the same form: nothing is started before it was checked. */
export default function NewOnboarding() {
  const may = useMay()
  const { sites, ready, error, retry } = useSites()
  const usable = sites.some((s) => s.status === 'active')
  const [begun, setBegun] = useState(false)
  // Who has begun to fill in the form keeps it, whatever becomes of the sites meanwhile.
  if (usable && !begun) setBegun(true)
  if (!may('onboarding:manage')) return <Page title="Onboard machines" back={back}><Empty title="You can read, but not onboard">Ask somebody with the permission onboarding:manage.</Empty></Page>
  if (begun) return <Form sites={sites} error={error} />
  if (error) return <Page title="Onboard machines" back={back}><ProblemNote error={error} onRetry={retry} /></Page>
  if (!ready) return <Page title="Onboard machines" back={back}><Loading what="sites" /></Page>
  return (
    <Page title="Onboard machines" back={back}>
      <Empty title="Create a site first" action={<LinkButton to="/sites" look="primary">Go to sites</LinkButton>}>
        A site is a data centre with its MAAS: it has the machines and the credentials that onboarding needs.
      </Empty>
    </Page>
  )
}

type Site = Schemas['SiteView']

function Form({ sites: all, error }: { sites: Site[]; error: unknown }) {
  const [search] = useSearchState()
  const { skus, ready: skusRead, error: skusError } = useSkus()
  const [site, setSite] = useState(() => {
    const active = all.filter((s) => s.status === 'active')
    return (active.find((s) => s.site_id === search.site) ?? active[0])?.site_id ?? ''
  })
  // One that was chosen and is disabled now still says so, instead of turning into another one.
  const sites = useMemo(() => all.filter((s) => s.status === 'active' || s.site_id === site), [all, site])
  const { profiles } = useProfiles(site)
  const [profile, setProfile] = useState('')
  const [sku, setSku] = useState('')
  const [text, setText] = useDraft()
  const [wipe, setWipe] = useState(false)
  const [keepOut, setKeepOut] = useState(false)
  const [match, setMatch] = useState(false)

  const fill = useCallback(
    (from: FromLab) => {
      const its = sites.find((s) => sameAddress(s.api_base_url, from.siteUrl))
      if (its) setSite(its.site_id)
      setSku(from.sku)
      if (from.machines.length > 0) setText(asText(from.machines))
      else say('All machines of the lab are already in use.', 'warn')
    },
    [sites, setText],
  )
  const lab = useLabMachines(Number(search.lab) || 0, fill)
  const active = skus.filter((s) => s.status === 'active')
  const chosenSku = sku || active[0]?.sku_id || ''
  const chosenProfile = profile || (profiles.find((p) => p.name === 'default') ?? profiles[0])?.profile_id || ''
  const parsed = useMemo(() => parseMachines(text), [text])
  const well = parsed.rows.length > 0 && parsed.problems.length === 0 && parsed.rows.every((r) => r.problems.length === 0)
  const machines = useMemo(() => machinesOf(parsed.rows), [parsed])
  const asked: Asked = { site_id: site, profile_id: chosenProfile || undefined, sku_id: chosenSku, initialize_disks: wipe, keep_out_of_service: keepOut, require_hardware_match: match, nodes: machines }
  const its = sites.find((s) => s.site_id === site)
  const policy = profiles.find((p) => p.profile_id === chosenProfile)

  return (
    <Page title="Onboard machines" back={back} lead="Bare servers become nodes: each is found in MAAS, commissioned and deployed, and its agent enrolls. Everything is checked before anything starts.">
      {error !== null && <ProblemNote error={error} />}
      {skusError && <ProblemNote error={skusError} />}
      {lab.error && <ProblemNote error={lab.error} />}
      {lab.noLab && <Note tone="warn" title="This control plane has no virtual lab">Enter the machines yourself.</Note>}
      <Card title="1. Site and hardware">
        <div className="grid gap-4 md:grid-cols-3">
          <SelectField
            label="Site"
            required
            value={site}
            onChange={(s) => {
              setSite(s)
              setProfile('')
            }}
            options={sites.map((s) => ({ value: s.site_id, label: `${s.name} (${s.region_code})${s.status === 'active' ? '' : ', disabled'}` }))}
            hint="The site whose MAAS has, or will get, the machines."
          />
          <SelectField label="Profile" required value={chosenProfile} onChange={setProfile} options={profiles.map((p) => ({ value: p.profile_id, label: p.name }))} hint={policy ? `Deploys ${policy.distro_series}, ${policy.architecture}.` : 'The policies that apply: image, time limits, network.'} />
          <SelectField label="SKU" required value={chosenSku} onChange={setSku} options={active.map((s) => ({ value: s.sku_id, label: `${s.sku_id}: ${s.gpus_total} × ${s.gpu_model}` }))} hint={active.length === 0 && skusRead && !skusError ? 'There is no SKU yet: create one first.' : 'The kind of machine they all are.'} />
        </div>
        {its && policy && (
          <p className="mt-3 text-sm text-muted">
            At most {Math.min(its.max_parallel, policy.batch_max_parallel)} in parallel: the site allows {its.max_parallel} across all batches, the profile {policy.batch_max_parallel} per batch. The others wait for a slot.
          </p>
        )}
        <div className="mt-4 grid gap-4">
          <CheckField label="Keep them out of service" value={keepOut} onChange={setKeepOut} hint="Each is installed, then quarantined until an operator returns it to service." />
          <CheckField label="Accept them only if the hardware matches the SKU" value={match} onChange={setMatch} hint="A machine with different GPUs, memory, disks or interfaces is parked and says what differs." />
        </div>
      </Card>
      <Steps asked={asked} well={well} text={text} setText={setText} parsed={parsed} wipe={wipe} setWipe={setWipe} />
    </Page>
  )
}

type StepsProps = { asked: Asked; well: boolean; text: string; setText: (t: string) => void; parsed: ReturnType<typeof parseMachines>; wipe: boolean; setWipe: (w: boolean) => void }

function Steps({ asked, well, text, setText, parsed, wipe, setWipe }: StepsProps) {
  const [typed, setTyped] = useTypedFor(JSON.stringify([asked.site_id, asked.nodes]))
  const [progress, setProgress] = useState('')
  const look = useMutation({
    mutationFn: async (a: Asked) => ({
      of: JSON.stringify(a),
      ...(await wholePreflight((from) => got(api.POST('/api/v1/admin/onboardings/preflight', { body: { ...a, from_machine: from } })), (done, of) => setProgress(`Asked MAAS about ${done} of ${of} machines …`))),
    }),
    onSettled: () => setProgress(''),
  })
  const hostnames = useMemo(() => new Set(asked.nodes.map((n) => n.hostname)), [asked.nodes])
  const outdated = look.data !== undefined && look.data.of !== JSON.stringify(asked)
  const looked = look.data !== undefined && !outdated
  const stopped = useMemo(() => (looked ? blocked(look.data.checks, hostnames) : new Map<string, string[]>()), [looked, look.data, hostnames])
  const word = asked.nodes.length === 1 ? (asked.nodes[0]?.hostname ?? '') : `destroy data on ${asked.nodes.length} machines`
  const confirmed = !wipe || typed.trim() === word
  const [failures, setFailures] = useState('')
  const mayFail = /^([0-9]{1,3}|1000)?$/.test(failures.trim())
  const start = useStart(asked, failures.trim() === '' ? undefined : Number(failures))
  const wellAndOk = looked && look.data.ok
  const refused = looked && look.data.checks.some((c) => !c.ok && alwaysRefused.has(c.name))
  const [anyway, setAnyway] = useState(false)
  const result = useRef<HTMLDivElement>(null)
  useEffect(() => {
    if (looked) result.current?.scrollIntoView({ block: 'nearest' })
  }, [looked, look.data])
  const rest = asked.nodes.filter((n) => !stopped.has(n.hostname))
  return (
    <>
      <Card title="2. The machines">
        <MachineRows text={text} onText={setText} parsed={parsed} blocked={stopped} looked={looked} />
      </Card>
      <Card title="3. Disks">
        <Disks wipe={wipe} setWipe={setWipe} count={asked.nodes.length} word={word} typed={typed} setTyped={setTyped} />
      </Card>
      {asked.nodes.length > 1 && (
        <Card title="4. When machines fail">
          <TextField label="Failures allowed" type="number" value={failures} onChange={setFailures} hint="If more machines than this fail or are cancelled, no further machine starts until somebody resumes the batch. Empty: no limit." error={mayFail ? undefined : 'must be 0 to 1000, or empty'} />
        </Card>
      )}
      {look.error && <ProblemNote error={look.error} onRetry={() => look.mutate(asked)} />}
      <div ref={result} className="scroll-mb-20">
        {look.data && <PreflightResult checks={look.data.checks} hostnames={hostnames} outdated={outdated} />}
      </div>
      <div className="sticky bottom-0 z-20 -mx-4 flex flex-wrap items-center justify-end gap-3 border-t border-line bg-canvas px-4 py-3 md:-mx-6 md:px-6">
        {start.error && (
          <div className="max-h-40 w-full overflow-auto">
            <Refused error={start.error} asked={asked} />
          </div>
        )}
        <p className="mr-auto text-sm text-muted" aria-live="polite">{progress || nextStep({ well, looked, ok: wellAndOk, refused, confirmed, rows: parsed.rows.length })}</p>
        {stopped.size > 0 && rest.length > 0 && (
          <Button onClick={() => setText(asText(rest))}>
            Leave {stopped.size} out
          </Button>
        )}
        <Button look={wellAndOk ? 'plain' : 'primary'} busy={look.isPending} disabled={!well || !asked.sku_id} onClick={() => look.mutate(asked)}>
          {looked ? 'Check again' : 'Preflight'}
        </Button>
        <Button look={wellAndOk ? 'primary' : 'plain'} busy={start.isPending} disabled={!well || !looked || !confirmed || !mayFail || refused} onClick={() => (wellAndOk ? start.mutate() : setAnyway(true))}>
          {looked && !look.data.ok ? 'Start anyway …' : asked.nodes.length > 1 ? `Start ${asked.nodes.length} onboardings` : 'Start'}
        </Button>
      </div>
      {anyway && (
        <ConfirmDialog title="Start despite the problems" does="Start anyway" danger act={() => start.mutateAsync()} onClose={() => setAnyway(false)}>
          <p>Preflight found problems that will probably park {asked.nodes.length === 1 ? 'this onboarding' : 'these onboardings'}: it then blocks its machine until somebody fixes the problem.</p>
        </ConfirmDialog>
      )}
    </>
  )
}

// What preflight finds there, the control plane refuses whatever one says.
const alwaysRefused = new Set(['site_active', 'profile', 'sku', 'machines', 'not_in_use', 'roce_rows'])

function nextStep({ well, looked, ok, refused, confirmed, rows }: { well: boolean; looked: boolean; ok: boolean; refused: boolean; confirmed: boolean; rows: number }): string {
  if (rows === 0) return 'Enter at least one machine.'
  if (!well) return 'Fix the marked rows; nothing has been sent.'
  if (!looked) return 'Next, run preflight: it checks everything and changes nothing.'
  if (refused) return 'This cannot be started: fix what is marked, or leave those machines out.'
  if (!ok) return 'Preflight found problems. Fix them and check again; machines that are started anyway will probably be parked.'
  return confirmed ? 'Preflight found no problems.' : 'First confirm that the disks may be wiped.'
}

function Disks({ wipe, setWipe, count, word, typed, setTyped }: { wipe: boolean; setWipe: (w: boolean) => void; count: number; word: string; typed: string; setTyped: (t: string) => void }) {
  return (
    <div className="flex flex-col gap-3">
      <p className="text-sm">The root disk of each machine is always reinstalled. All other disks are left as they are unless you choose this:</p>
      <CheckField label="Initialize the data disks (/share1, /share2, …)" value={wipe} onChange={setWipe} hint="At the first boot, every disk except the root disk is repartitioned and reformatted." />
      {wipe && (
        <Note tone="bad" title="This destroys all data on every disk except the root disk">
          <div className="flex flex-col gap-3">
            <p>
              On {count === 1 ? 'this machine' : `each of these ${count} machines`}, at its first boot, every disk except the root disk gets a new partition table and a new file system, and is mounted as /share1, /share2, and so on. Everything on those disks now is lost. Nobody can recover it, and cancelling the onboarding later does not bring it back.
            </p>
            {count > 0 && <TextField label={`Type “${word}” to confirm`} required value={typed} onChange={setTyped} />}
          </div>
        </Note>
      )}
    </div>
  )
}

const useDraftKey = () => `machines to onboard of ${useMe().id}`

// A thousand rows that somebody pasted outlive a look at another page.
function useDraft() {
  const key = useDraftKey()
  const [text, setText] = useState(() => sessionStorage.getItem(key) ?? '')
  useEffect(() => sessionStorage.setItem(key, text), [key, text])
  return [text, setText] as const
}

function useStart(asked: Asked, max_failures?: number) {
  const navigate = useNavigate()
  const queries = useQueryClient()
  const draft = useDraftKey()
  return useMutation({
    mutationFn: async () => {
      const { nodes, ...rest } = asked
      const [only] = nodes
      if (nodes.length === 1 && only) return `/onboardings/${(await got(api.POST('/api/v1/admin/onboardings', { body: { ...rest, ...only } }))).onboarding_id}`
      return `/onboarding-batches/${(await got(api.POST('/api/v1/admin/onboardings/batch', { body: { ...asked, max_failures } }))).batch_id}`
    },
    onSuccess: (to) => {
      sessionStorage.removeItem(draft)
      say(asked.nodes.length === 1 ? `The onboarding of ${asked.nodes[0]?.hostname ?? 'it'} started.` : `The onboarding of ${asked.nodes.length} machines started.`)
      void queries.invalidateQueries({ queryKey: ['onboardings'] })
      void queries.invalidateQueries({ queryKey: ['onboarding-batches'] })
      void navigate({ to })
    },
  })
}

// The control plane counts machines from 0; people have names.
function Refused({ error, asked }: { error: unknown; asked: Asked }) {
  const { problem } = asRefusal(error)
  const named = (problem.errors ?? []).map((e) => ({ ...e, field: e.field.replace(/nodes\[(\d+)\]/, (_, i: string) => asked.nodes[Number(i)]?.hostname ?? `row ${Number(i) + 1}`) }))
  return <ProblemNote error={Object.assign(asRefusal(error), { problem: { ...problem, errors: named } })} />
}
