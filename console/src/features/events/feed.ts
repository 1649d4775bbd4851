import { jobFamilies, jobPath } from '../../api/jobs'

/** Facts that say best what an event is about, the best first. */
const naming = ['hostname', 'name', 'slug', 'sku_id', 'batch_id', 'signer_id', 'user_id', 'node_id', 'site_id', 'org_id']

type Payload = Record<string, unknown>

/** factsOf is the payload of an event as facts; an event of another form has none. */
export function factsOf(payload: unknown): Payload {
  return typeof payload === 'object' && payload !== null && !Array.isArray(payload) ? (payload as Payload) : {}
}

/** about names what an event is about. */
export function about(payload: unknown): string {
  const facts = factsOf(payload)
  for (const key of naming) {
    const value = facts[key]
    if (typeof value === 'string' && value) return value
  }
  return ''
}

const telling = ['stage', 'status', 'from', 'to', 'finding', 'type', 'action', 'failure_class', 'code', 'message', 'reason', 'changed']

/** gist is the facts that tell what happened, in a line. */
export function gist(payload: unknown): string {
  const facts = factsOf(payload)
  return telling
    .filter((key) => typeof facts[key] === 'string' && facts[key] !== '')
    .map((key) => `${key.replaceAll('_', ' ')} ${String(facts[key])}`)
    .join(', ')
}

/** leadsTo is the pages about the things that an event names. */
export function leadsTo(payload: unknown): { title: string; to: string }[] {
  const facts = factsOf(payload)
  const pages: [key: string, title: string, path: string][] = [
    ['node_id', 'Node', '/nodes/'],
    ...jobFamilies.map((f): [string, string, string] => [`${f}_id`, f.charAt(0).toUpperCase() + f.slice(1), jobPath({ kind: f, id: '' })]),
    ['task_id', 'Task', '/tasks/'],
    ['certificate_id', 'Certificate', '/certificates/'],
    ['site_id', 'Site', '/sites/'],
    ['org_id', 'Tenant', '/access/tenants/'],
    ['project_id', 'Project', '/access/projects/'],
  ]
  return pages.flatMap(([key, title, path]) => {
    const id = facts[key]
    return typeof id === 'string' && id ? [{ title, to: path + id }] : []
  })
}

/** families is the beginnings of the types, for choosing: node.onboarding. of node.onboarding.stage. */
export function families(types: string[]): string[] {
  return [...new Set(types.map((t) => t.slice(0, t.lastIndexOf('.') + 1)).filter(Boolean))].sort()
}
