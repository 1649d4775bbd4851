import { enums } from '../../api/gen/enums'
import type { Schemas } from '../../api/client'
import { nodeMay } from '../../api/states'
import type { Tone } from '../../ui/tone'
import { words } from '../../ui/tone'

export type Finding = Schemas['ReconciliationFindingView']
export type Severity = Finding['severity']
export type Resolution = Schemas['ReconciliationResolveBody']['resolution']
export type SiteOverview = Schemas['ReconciliationSiteOverview']
export type Run = Schemas['ReconciliationRunView']

/** severities, the worst first. */
export const severities: readonly Severity[] = [...enums['list-findings.severity']].reverse()

/** A finding that came back so often within a month is not settled by settling it once more. */
export const oftenIs = 3

const does: Record<string, { doing: string; done: string }> = {
  quarantine: { doing: 'quarantine the node', done: 'the node was quarantined' },
  mark_offline: { doing: 'mark the node offline', done: 'the node was marked offline' },
  update_host: { doing: 'adopt the new address', done: 'the new address was adopted' },
  reseed_hw_sync: { doing: 'give the agent a new token for hardware sync', done: 'the agent was given a new token for hardware sync' },
  power_off_machine: { doing: 'switch the machine off', done: 'the machine was switched off' },
  release_machine: { doing: 'release the machine in MAAS', done: 'the machine was released in MAAS' },
}

/** actionOf says what reconciliation did about a finding by itself, or why it did not. */
export function actionOf(f: Pick<Finding, 'action' | 'acted_at' | 'action_note' | 'withheld' | 'status'>): { tone: Tone; text: string; at?: string } {
  if (!f.action) return { tone: 'idle', text: 'No automatic action.' }
  const { doing, done } = does[f.action] ?? { doing: words(f.action), done: `done: ${words(f.action)}` }
  if (f.acted_at) return { tone: 'ok', text: sentence(f.action_note ? `${done}: ${f.action_note}` : done), at: f.acted_at }
  if (f.withheld) return { tone: 'warn', text: `Not done: gpuaas would ${doing}, but ${f.withheld}` }
  if (f.status === 'open') return { tone: 'info', text: `gpuaas will ${doing} if another check shows the same.` }
  if (f.status === 'closed') return { tone: 'idle', text: 'It closed before any action was taken.' }
  return { tone: 'info', text: `gpuaas is about to ${doing}.` }
}

function sentence(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1)
}

/** subjectOf names what a finding is about: its node, its machine or its site. */
export function subjectOf(f: Pick<Finding, 'hostname' | 'maas_system_id' | 'site_name'>): string {
  return f.hostname || (f.maas_system_id ? `machine ${f.maas_system_id}` : `site ${f.site_name}`)
}

/** ordinal counts as people do. */
export function ordinal(n: number): string {
  const last = n % 100 >= 11 && n % 100 <= 13 ? 0 : n % 10
  return `${n}${last === 1 ? 'st' : last === 2 ? 'nd' : last === 3 ? 'rd' : 'th'}`
}

export type Choice = { resolution: Resolution; title: string; does: string; /** Why it cannot be chosen now. */ barred?: string; destroys?: boolean }

/** choicesFor is what an operator can decide about a node, the mildest first, each with what it will do. */
export function choicesFor(node: { node_status: string; findings: { type: string }[]; held_by?: string }): Choice[] {
  const { node_status: status } = node
  const clear = node.findings.length === 0
  const jobHas = node.held_by ? `${node.held_by} is working on it; deal with that first` : undefined
  return [
    {
      resolution: 'acknowledge',
      title: 'Acknowledge',
      does: 'Marks the findings as known. Nothing else changes; they stay open until a check no longer shows them.',
      barred: clear ? 'there is no finding to acknowledge' : undefined,
    },
    {
      resolution: 'adopt_observed',
      title: 'Adopt the observed state',
      does: 'Choose this if MAAS is right. After a check that proves it is this node, the inventory takes over what MAAS shows. Not every kind of finding can be adopted; if this one cannot, nothing changes and you see why.',
      barred: clear ? 'there is nothing to adopt' : jobHas,
    },
    {
      resolution: 'quarantine',
      title: 'Quarantine',
      does: 'No new work is placed on the node. What runs there is not touched.',
      barred: status === 'quarantined' ? 'the node is quarantined already' : nodeMay(status, 'quarantine') ? undefined : `a node that is ${words(status)} cannot be quarantined`,
    },
    {
      resolution: 'return_to_service',
      title: 'Return to service',
      does: 'Ends the quarantine, after a check with MAAS and the agent that proves the node healthy. If it is not healthy, nothing changes and you see why.',
      barred: nodeMay(status, 'return_to_service') ? undefined : 'the node is not quarantined',
    },
    {
      resolution: 'reimage',
      title: 'Reimage',
      does:
        'Releases the machine and reinstalls it as the same node. Destroys the installation and everything on its disks.' +
        (node.findings.some((f) => f.type === 'released') ? ' Somebody else has released this machine, and what happened to its disks is not known: the job stops there and asks you to adopt the machine as it is.' : ''),
      barred: jobHas,
      destroys: true,
    },
  ]
}

/** resolutionIn is the decision that a command stands for. */
export function resolutionIn(command: string): Resolution | undefined {
  const word = /^gpuaas drift resolve \S+ ([\w-]+)/.exec(command)?.[1]
  return word === undefined ? undefined : resolutions[word]
}

const resolutions: Record<string, Resolution> = { acknowledge: 'acknowledge', adopt: 'adopt_observed', quarantine: 'quarantine', 'return-to-service': 'return_to_service', reimage: 'reimage' }

/** doneWords is what it means that a resolution was carried out. */
export const doneWords: Record<Resolution, string> = {
  acknowledge: 'The findings are acknowledged. They stay open until a check no longer shows them.',
  adopt_observed: 'The observed state was adopted.',
  quarantine: 'The node is quarantined: no new work is placed on it.',
  return_to_service: 'The node is back in service: MAAS and its agent show it healthy.',
  reimage: 'The node is being reinstalled.',
}

export const siteTones: Record<SiteOverview['state'], Tone> = { ok: 'ok', stale: 'warn', paused: 'idle', breaker_open: 'bad', no_information: 'warn', never: 'idle' }

export const siteWords: Record<SiteOverview['state'], string> = {
  ok: 'watched',
  stale: 'stale: no complete answer from MAAS for a long time',
  paused: 'paused: the site is disabled',
  breaker_open: 'breaker open: you decide',
  no_information: 'no information from MAAS',
  never: 'not checked yet',
}

const outcomes: Record<string, { tone: Tone; text: string }> = {
  informed: { tone: 'ok', text: 'MAAS answered everything' },
  partly: { tone: 'warn', text: 'MAAS answered in part' },
  no_information: { tone: 'bad', text: 'no information' },
  breaker_open: { tone: 'bad', text: 'breaker open' },
  refused: { tone: 'warn', text: 'refused' },
  skipped: { tone: 'idle', text: 'skipped' },
}

/** outcomeOf is how a run ended, or that it has not. */
export function outcomeOf(run: Pick<Run, 'outcome' | 'ended_at' | 'began_at'>): { tone: Tone; text: string } {
  if (run.outcome) return outcomes[run.outcome] ?? { tone: 'idle', text: words(run.outcome) }
  return run.ended_at ? { tone: 'idle', text: 'ended' } : { tone: 'info', text: run.began_at ? 'running' : 'waiting to start' }
}
