import { api, got, type Schemas } from '../../api/client'
import type { Verb } from './operation'

/** Whose runs are meant: those of a project, or of the platform and everybody. */
export type Where = { projectId?: string }

export const runsKey = ['operations'] as const

type Listed = { status?: Schemas['OperationState'][]; type?: string; node_id?: string; cursor?: string }

// In one parameter, with commas.
const inCommas = { array: { style: 'form', explode: false } } as const

export const listRuns = ({ projectId }: Where, query: Listed) =>
  projectId
    ? got(api.GET('/api/v1/projects/{project_id}/operations', { params: { path: { project_id: projectId }, query: { ...query, page_size: 100 } }, querySerializer: inCommas }))
    : got(api.GET('/api/v1/admin/operations', { params: { query: { ...query, page_size: 100 } }, querySerializer: inCommas }))

export const readRun = ({ projectId }: Where, operation_id: string) =>
  projectId
    ? got(api.GET('/api/v1/projects/{project_id}/operations/{operation_id}', { params: { path: { project_id: projectId, operation_id } } }))
    : got(api.GET('/api/v1/admin/operations/{operation_id}', { params: { path: { operation_id } } }))

export const listTargets = ({ projectId }: Where, operation_id: string, cursor: string | undefined) =>
  projectId
    ? got(api.GET('/api/v1/projects/{project_id}/operations/{operation_id}/targets', { params: { path: { project_id: projectId, operation_id }, query: { cursor, page_size: 200 } } }))
    : got(api.GET('/api/v1/admin/operations/{operation_id}/targets', { params: { path: { operation_id }, query: { cursor, page_size: 200 } } }))

/** Which steps are wanted: of one node, or those whose newest attempt stands so. */
export type StepWish = { target?: string; status?: Schemas['OperationStepView']['status'] }

export const listSteps = ({ projectId }: Where, operation_id: string, wish: StepWish, cursor: string | undefined) =>
  projectId
    ? got(api.GET('/api/v1/projects/{project_id}/operations/{operation_id}/steps', { params: { path: { project_id: projectId, operation_id }, query: { ...wish, cursor, page_size: 200 } } }))
    : got(api.GET('/api/v1/admin/operations/{operation_id}/steps', { params: { path: { operation_id }, query: { ...wish, cursor, page_size: 200 } } }))

export const listArtifacts = ({ projectId }: Where, operation_id: string, wish: { target?: string; kind?: Schemas['OperationArtifactView']['kind'] }, cursor: string | undefined) =>
  projectId
    ? got(api.GET('/api/v1/projects/{project_id}/operations/{operation_id}/artifacts', { params: { path: { project_id: projectId, operation_id }, query: { ...wish, cursor, page_size: 100 } } }))
    : got(api.GET('/api/v1/admin/operations/{operation_id}/artifacts', { params: { path: { operation_id }, query: { ...wish, cursor, page_size: 100 } } }))

/** Which lines of the log are wanted. */
export type Wish = { target?: string; step_id?: string; q?: string }

/** listLines reads a page of the log: without follow the answer is a list. */
export const listLines = ({ projectId }: Where, operation_id: string, wish: Wish, cursor: string | undefined) =>
  (projectId
    ? got(api.GET('/api/v1/projects/{project_id}/operations/{operation_id}/logs', { params: { path: { project_id: projectId, operation_id }, query: { ...wish, cursor, page_size: 200 } } }))
    : got(api.GET('/api/v1/admin/operations/{operation_id}/logs', { params: { path: { operation_id }, query: { ...wish, cursor, page_size: 200 } } }))) as Promise<Schemas['OperationLineViewList']>

type Submit = Schemas['OperationSubmitBody']

export const planRun = ({ projectId }: Where, body: Submit) =>
  projectId ? got(api.POST('/api/v1/projects/{project_id}/operations/plan', { params: { path: { project_id: projectId } }, body })) : got(api.POST('/api/v1/admin/operations/plan', { body }))

export const submitRun = ({ projectId }: Where, body: Submit) =>
  projectId ? got(api.POST('/api/v1/projects/{project_id}/operations', { params: { path: { project_id: projectId } }, body })) : got(api.POST('/api/v1/admin/operations', { body }))

/** actOn does something to a run. Targets are those that go on, of a retry: without them all that did not succeed do. */
export function actOn({ projectId }: Where, verb: Verb, operation_id: string, reason: string, targets?: string[]) {
  if (verb === 'retry') {
    const body = { reason, targets }
    return projectId
      ? got(api.POST('/api/v1/projects/{project_id}/operations/{operation_id}/retry', { params: { path: { project_id: projectId, operation_id } }, body }))
      : got(api.POST('/api/v1/admin/operations/{operation_id}/retry', { params: { path: { operation_id } }, body }))
  }
  return projectId
    ? got(api.POST(`/api/v1/projects/{project_id}/operations/{operation_id}/${verb}`, { params: { path: { project_id: projectId, operation_id } }, body: { reason } }))
    : got(api.POST(`/api/v1/admin/operations/{operation_id}/${verb}`, { params: { path: { operation_id } }, body: { reason } }))
}
