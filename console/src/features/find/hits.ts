import type { Schemas } from '../../api/client'
import { jobPath, jobWord, type JobFamily } from '../../api/jobs'
import { words, type Noun, type Tone } from '../../ui/tone'
import { isParked, standingOf, type Job, idOf } from '../job/job'

/** What a search looks for, in the order in which it is shown. */
export const kinds = ['Pages', 'Nodes', 'Jobs', 'Sites', 'Tenants', 'Projects', 'Allocations'] as const

/** Hit is something that a search found, and where it has its page. */
export type Hit = {
  key: string
  title: string
  detail?: string
  to: string
  search?: Record<string, string>
  state?: { of: Noun; is: string }
  /** What else stands out, such as a finding. */
  marks?: { tone: Tone; text: string }[]
}

/** most is how many of a kind are suggested. */
export const most = 6

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

/** wholeId says whether a text is an id, which finds what has it and nothing else. */
export const wholeId = (text: string) => uuid.test(text)

type Sought = { names: (string | undefined)[]; id?: string }

/** fits says whether one of its names has a text in it, or its id begins so. */
export function fits(text: string, { names, id }: Sought): boolean {
  return names.some((n) => n?.toLowerCase().includes(text)) || (text.length > 3 && !!id?.startsWith(text))
}

/** best takes the few that fit; those whose name begins so come first. */
export function best<T>(all: T[], text: string, sought: (of: T) => Sought): T[] {
  const found = all.filter((one) => fits(text, sought(one)))
  const begins = (one: T) => Number(sought(one).names.some((n) => n?.toLowerCase().startsWith(text)))
  return found.sort((a, b) => begins(b) - begins(a)).slice(0, most)
}

/** nodeHit is a node of the map. What was not found by its name says so. */
export function nodeHit(text: string, siteName: (id: string) => string | undefined, n: Schemas['FleetviewSpot']): Hit {
  const by = n.hostname.includes(text) ? '' : 'by id, address, serial or MAC'
  const marks: Hit['marks'] = []
  if (n.job && isParked(n.job.status)) marks.push({ tone: 'bad', text: `${jobWord(n.job.kind)} parked` })
  if (n.severity) marks.push({ tone: n.severity === 'critical' ? 'bad' : n.severity === 'warning' ? 'warn' : 'idle', text: `${n.severity} finding` })
  return {
    key: `node ${n.node_id}`,
    title: n.hostname,
    detail: [n.site_id && siteName(n.site_id), n.rack && `rack ${n.rack}`, n.region_code, by].filter(Boolean).join(' · '),
    to: `/nodes/${n.node_id}`,
    state: { of: 'node', is: n.status },
    marks,
  }
}

/** jobHit is a job of a kind. */
export function jobHit(kind: JobFamily, job: Job): Hit {
  const id = idOf(job)
  const word = jobWord(kind)
  return { key: `job ${id}`, title: job.hostname, detail: [`${word.charAt(0).toUpperCase()}${word.slice(1)}`, !isParked(job.status) && words(job.current_stage)].filter(Boolean).join(' · '), to: jobPath({ kind, id }), state: { of: 'job', is: standingOf(job) } }
}
