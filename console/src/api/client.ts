import createClient, { type Middleware } from 'openapi-fetch'
import type { components, paths } from './gen/schema'
import { keyed } from './idempotency'

export type Schemas = components['schemas']
export type Problem = Schemas['Problem']

/** A request that the control plane refused or could not answer, with what to do. */
export class Refusal extends Error {
  readonly problem: Problem

  constructor(problem: Problem) {
    super(problem.detail || problem.title)
    this.name = 'Refusal'
    this.problem = problem
  }

  get status() {
    return this.problem.status
  }

  /** What is wrong with each field, by its path below the body. */
  get fields(): Record<string, string> {
    const out: Record<string, string> = {}
    for (const e of this.problem.errors ?? []) out[e.field.replace(/^body\./, '')] = e.message
    return out
  }
}

const outage: Problem = {
  type: 'about:blank',
  title: 'No answer',
  status: 0,
  code: 'unreachable',
  detail: 'The control plane does not answer.',
  remedy: 'Check that it runs and that this machine reaches it, then try again. A change that was already made is not made twice.',
}

/** asRefusal makes of anything that went wrong what a person can read. */
export function asRefusal(error: unknown): Refusal {
  if (error instanceof Refusal) return error
  return new Refusal({ ...outage, code: 'unexpected', title: 'Unexpected', detail: error instanceof Error ? error.message : String(error), remedy: 'Load the page again.' })
}

/** reach is fetch, with a refusal that a person can read where nobody answers. */
export async function reach(input: RequestInfo | URL, init?: RequestInit): Promise<Response> {
  try {
    return await fetch(input, init)
  } catch (error) {
    // Browsers say TypeError when nobody answers; an abort is somebody's own wish.
    throw error instanceof TypeError ? new Refusal(outage) : error
  }
}

/** signedOut is told when a request was refused for want of a session. */
export const signedOut = new EventTarget()

const strict: Middleware = {
  async onResponse({ response, schemaPath }) {
    if (response.ok) return response
    if (response.status === 401 && !schemaPath.startsWith('/api/v1/auth/') && schemaPath !== '/api/v1/me') signedOut.dispatchEvent(new Event('signed-out'))
    throw new Refusal(await problemOf(response))
  },
}

/** problemOf reads the problem of an answer, also when something in between wrote it. */
export async function problemOf(response: Response): Promise<Problem> {
  try {
    const body = (await response.clone().json()) as Problem
    if (typeof body.code === 'string') return body
  } catch {
    // not a problem document: a proxy's page, for one
  }
  return { ...outage, status: response.status, title: response.statusText || 'Error', code: `http_${response.status}`, detail: `The answer was ${response.status} ${response.statusText}.` }
}

export const api = createClient<paths>({ baseUrl: window.location.origin, credentials: 'same-origin', fetch: keyed(reach) })
api.use(strict)

/** got is the body of an answer; a refusal has been thrown before. */
export async function got<T>(answer: Promise<{ data?: T; response: Response }>): Promise<T> {
  const { data } = await answer
  return data as T
}

/** versioned is the body with the entity tag that a change has to name. */
export async function versioned<T>(answer: Promise<{ data?: T; response: Response }>): Promise<{ body: T; etag: string }> {
  const { data, response } = await answer
  return { body: data as T, etag: response.headers.get('ETag') ?? '' }
}
