import type { Schemas } from '../../api/client'
import { batchFamilies, jobFamilies, jobPath, jobWord, type BatchFamily, type JobFamily } from '../../api/jobs'
import { span } from '../../ui/time'
import type { Tone } from '../../ui/tone'
import { idOf, type Job } from '../job/job'

/** Something that waits for a person, and where it is dealt with. */
export type Matter = { key: string; tone: Tone; title: string; detail: string; to: string; search?: Record<string, string> }

type Batch = Pick<Schemas['OnboardingBatchView'], 'batch_id' | 'state' | 'total' | 'failed'>

/** A parked job as it is named here. */
export type ParkedJob = Pick<Job, 'hostname' | 'onboarding_id' | 'decommission_id'> & { failure?: Pick<NonNullable<Job['failure']>, 'error_message' | 'error_remedy'> }

/** What is known of the fleet; what is missing was not read. */
export type Known = {
  summary?: Schemas['FleetviewSummary']
  reconciliation?: Schemas['ReconciliationOverview']
  system?: Schemas['SystemStatus']
  batches?: Partial<Record<BatchFamily, Batch[]>>
  /** The newest parked jobs of each kind: only some of many are named. */
  parked?: Partial<Record<JobFamily, ParkedJob[]>>
}

// Delivery takes milliseconds; what waits for so long is not on its way.
const lateAfter = 30

const many = (n: number, one: string, more: string) => (n === 1 ? `1 ${one}` : `${n} ${more}`)

/** matters lists what needs attention, the worst first. */
export function matters({ summary, reconciliation, system, batches, parked }: Known): Matter[] {
  const out: Matter[] = [...ofSystem(system), ...ofSites(reconciliation), ...ofFleet(summary, parked), ...batchFamilies.flatMap((f) => ofBatches(f, batches?.[f]))]
  const weight: Partial<Record<Tone, number>> = { bad: 0, warn: 1 }
  return out.sort((a, b) => (weight[a.tone] ?? 2) - (weight[b.tone] ?? 2))
}

function ofSystem(system: Known['system']): Matter[] {
  if (!system) return []
  const out: Matter[] = (system.dependencies ?? [])
    .filter((d) => !d.up)
    .map((d) => ({ key: `dependency ${d.name}`, tone: 'bad', title: `${d.name} is down`, detail: d.message ?? 'The control plane cannot work without it.', to: '/system' }))
  if (!system.ready && out.length === 0) out.push({ key: 'not ready', tone: 'bad', title: 'The control plane is not ready', detail: 'Something it depends on is not available.', to: '/system' })
  const dead = (system.outbox ?? []).reduce((n, b) => n + b.failed, 0)
  const idle = [...new Set(system.workers.filter((w) => w.pollers === 0).map((w) => w.task_queue))]
  if (idle.length > 0) out.push({ key: 'no worker', tone: 'bad', title: `No worker is running for ${idle.join(', ')}`, detail: 'Jobs are not moving. Start a process with the role worker.', to: '/system' })
  const late = Math.max(0, ...[...(system.outbox ?? []).filter((b) => b.pending > 0), ...system.workers.filter((w) => w.backlog > 0)].map((b) => b.oldest_age_seconds))
  if (late > lateAfter) out.push({ key: 'late', tone: 'warn', title: `Work has been waiting for ${span(late)}`, detail: 'Work normally starts within seconds. Open the system page to see which part is behind.', to: '/system' })
  if (dead > 0) out.push({ key: 'dead letters', tone: 'warn', title: many(dead, 'message was not delivered', 'messages were not delivered'), detail: 'Deliver these dead letters again or discard them.', to: '/system' })
  return out
}

function ofSites(reconciliation: Known['reconciliation']): Matter[] {
  const out: Matter[] = []
  for (const site of reconciliation?.sites ?? []) {
    const search = { site: site.site_id }
    if (site.breaker && !site.breaker.confirmed_at) {
      out.push({
        key: `breaker ${site.site_id}`,
        tone: 'bad',
        title: `${site.name}: the circuit breaker is open`,
        detail: `It held back the quarantine of ${many(site.breaker.nodes.length, 'node', 'nodes')}. Confirm or dismiss.`,
        to: '/drift',
        search,
      })
    }
    if (site.breaker?.confirmed_at) {
      out.push({ key: `breaker ${site.site_id}`, tone: 'info', title: `${site.name}: nodes are being quarantined`, detail: `An operator confirmed the circuit breaker, which held back ${many(site.breaker.nodes.length, 'node', 'nodes')}.`, to: '/drift', search })
    }
    if (site.stale) {
      out.push({ key: `unheard ${site.site_id}`, tone: 'warn', title: `${site.name}: no complete answer from MAAS`, detail: site.last_error?.message ?? 'MAAS has not answered completely for a long time, so drift at this site may go unnoticed.', to: '/drift', search })
    }
  }
  return out
}

/** What a parked job keeps meanwhile, where there is such a thing. */
const keeps: Partial<Record<JobFamily, string>> = { decommission: 'The node stays held until an operator acts.' }

const longest = 100

/** ofParked names the parked jobs of a kind, and counts those that are not named. */
function ofParked(kind: JobFamily, total: number, jobs: ParkedJob[] = []): Matter[] {
  const shown = jobs.slice(0, total)
  const out = shown.map((j): Matter => {
    const why = j.failure?.error_message ?? ''
    const title = why ? `${j.hostname} is parked: ${why.length > longest ? `${why.slice(0, longest)}…` : why}` : `${j.hostname} is parked`
    return { key: `parked ${idOf(j)}`, tone: 'bad', title, detail: j.failure?.error_remedy ?? keeps[kind] ?? 'It does not continue until an operator acts.', to: jobPath({ kind, id: idOf(j) }) }
  })
  const others = total - shown.length
  const more = `${shown.length > 0 ? 'more ' : ''}${jobWord(kind)}`
  if (others > 0) out.push({ key: `${kind}s`, tone: 'bad', title: `${many(others, `${more} is`, `${more}s are`)} parked`, detail: keeps[kind] ?? 'None continues until an operator acts.', to: `/${kind}s`, search: { status: 'failed' } })
  return out
}

function ofFleet(summary: Known['summary'], parked: Known['parked']): Matter[] {
  if (!summary) return []
  const out: Matter[] = []
  const { jobs, findings, by_status: by } = summary
  for (const f of jobFamilies) out.push(...ofParked(f, jobs[`${f}s_parked`], parked?.[f]))
  if (findings.critical > 0) {
    out.push({ key: 'findings', tone: 'bad', title: many(findings.critical, 'critical finding', 'critical findings'), detail: 'MAAS, the agents and the inventory disagree.', to: '/drift', search: { tab: 'findings', severity: 'critical' } })
  }
  if (findings.warning > 0) {
    out.push({ key: 'warnings', tone: 'warn', title: many(findings.warning, 'warning finding', 'warning findings'), detail: 'MAAS, the agents and the inventory disagree.', to: '/drift', search: { tab: 'findings', severity: 'warning' } })
  }
  if (by.offline > 0) out.push({ key: 'offline', tone: 'warn', title: `${many(by.offline, 'node is', 'nodes are')} offline`, detail: 'Their agents do not answer.', to: '/nodes', search: { status: 'offline' } })
  if (by.quarantined > 0) {
    out.push({ key: 'quarantined', tone: 'warn', title: `${many(by.quarantined, 'node is', 'nodes are')} quarantined`, detail: 'Quarantined nodes get no new work until an operator returns them to service.', to: '/nodes', search: { status: 'quarantined' } })
  }
  return out
}

/** batchOf is a batch of a kind in words, such as an onboarding of 3 nodes. */
function batchOf(kind: BatchFamily, total: number) {
  const what = jobWord(kind)
  return `${/^[aeiou]/.test(what) ? 'An' : 'A'} ${what} of ${many(total, 'node', 'nodes')}`
}

function ofBatches(kind: BatchFamily, batches: Batch[] = []): Matter[] {
  return batches
    .filter((b) => b.state === 'halted')
    .map((b) => ({ key: `batch ${b.batch_id}`, tone: 'bad', title: `${batchOf(kind, b.total)} is halted`, detail: `${many(b.failed, 'node', 'nodes')} failed. No further node starts until an operator resumes the batch.`, to: `/${kind}-batches/${b.batch_id}` }))
}
