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
  update_host: { doing: 'take over the new address', done: 'the new address was taken over' },
  reseed_hw_sync: { doing: 'give the agent its token for hardware sync anew', done: 'the agent was given its token for hardware sync anew' },
  power_off_machine: { doing: 'switch the machine off', done: 'the machine was switched off' },
  release_machine: { doing: 'release the machine in MAAS', done: 'the machine was released in MAAS' },
}

/** actionOf says what reconciliation did about a finding by itself, or why it did not. */
export function actionOf(f: Pick<Finding, 'action' | 'acted_at' | 'action_note' | 'withheld' | 'status'>): { tone: Tone; text: string; at?: string } {
  if (!f.action) return { tone: 'idle', text: 'Nothing is done about it by itself.' }
  const { doing, done } = does[f.action] ?? { doing: words(f.action), done: `done: ${words(f.action)}` }
  if (f.acted_at) return { tone: 'ok', text: sentence(f.action_note ? `${done}: ${f.action_note}` : done), at: f.acted_at }
  if (f.withheld) return { tone: 'warn', text: `Withheld: would ${doing}, but ${f.withheld}` }
  if (f.status === 'open') return { tone: 'info', text: `Will ${doing} when another look shows the same.` }
  if (f.status === 'closed') return { tone: 'idle', text: 'It was over before anything was done.' }
  return { tone: 'info', text: `Is about to ${doing}.` }
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
  const jobHas = node.held_by ? `${node.held_by} works on it; deal with that first` : undefined
  return [
    {
      resolution: 'acknowledge',
      title: 'Acknowledge',
      does: 'Says that it is known. Nothing changes; the findings stay until they are over.',
      barred: clear ? 'there is no finding to acknowledge' : undefined,
    },
    {
      resolution: 'adopt_observed',
      title: 'Adopt what is observed',
      does: 'What is there is right: after a look that proves that it is this node, the inventory follows what MAAS shows. Not every kind of finding can be adopted; then nothing is changed and you are told why.',
      barred: clear ? 'there is nothing to adopt' : jobHas,
    },
    {
      resolution: 'quarantine',
      title: 'Quarantine',
      does: 'Nothing new is placed on the node. What runs there is not touched.',
      barred: status === 'quarantined' ? 'the node is quarantined already' : nodeMay(status, 'quarantine') ? undefined : `a node that is ${words(status)} cannot be quarantined`,
    },
    {
      resolution: 'return_to_service',
      title: 'Return to service',
      does: 'Ends the quarantine, after a look at MAAS and the agent that proves the node healthy. If it is not, nothing is changed and you are told why.',
      barred: nodeMay(status, 'return_to_service') ? undefined : 'the node is not quarantined',
    },
    {
      resolution: 'reimage',
      title: 'Reimage',
      does:
        'Releases the machine and installs it anew under the same node. Destroys the installation and what is on its disks.' +
        (node.findings.some((f) => f.type === 'released') ? ' Somebody else has released this machine, and what became of its disks is not known: the job stops there and has you adopt the machine as it is.' : ''),
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
  acknowledge: 'The findings are known; they stay until they are over.',
  adopt_observed: 'What is observed is accepted.',
  quarantine: 'The node is quarantined: nothing new is placed on it.',
  return_to_service: 'The node is back in service: MAAS and its agent show it healthy.',
  reimage: 'The node is being installed anew.',
}

export const siteTones: Record<SiteOverview['state'], Tone> = { ok: 'ok', stale: 'warn', paused: 'idle', breaker_open: 'bad', no_information: 'warn', never: 'idle' }

export const siteWords: Record<SiteOverview['state'], string> = {
  ok: 'watched',
  stale: 'stale: MAAS has not told all for long',
  paused: 'paused: the site is disabled',
  breaker_open: 'breaker open: you decide',
  no_information: 'no information from MAAS',
  never: 'not looked at yet',
}

const outcomes: Record<string, { tone: Tone; text: string }> = {
  informed: { tone: 'ok', text: 'MAAS answered all' },
  partly: { tone: 'warn', text: 'MAAS answered in part' },
  no_information: { tone: 'bad', text: 'no information' },
  breaker_open: { tone: 'bad', text: 'breaker open' },
  refused: { tone: 'warn', text: 'refused' },
  skipped: { tone: 'idle', text: 'skipped' },
}

/** outcomeOf is how a run ended, or that it has not. */
export function outcomeOf(run: Pick<Run, 'outcome' | 'ended_at' | 'began_at'>): { tone: Tone; text: string } {
  if (run.outcome) return outcomes[run.outcome] ?? { tone: 'idle', text: words(run.outcome) }
  return run.ended_at ? { tone: 'idle', text: 'ended' } : { tone: 'info', text: run.began_at ? 'looking' : 'waiting to begin' }
}
