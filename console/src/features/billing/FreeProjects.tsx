import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api, asRefusal, got } from '../../api/client'
import { usePages } from '../../api/pages'
import { largestPage, readAll } from '../../api/readall'
import { ActForm } from '../../ui/actform'
import { Button, Loading } from '../../ui/basics'
import { Dialog } from '../../ui/dialog'
import { ReasonField, SelectField } from '../../ui/form'
import { ProblemNote } from '../../ui/problem'
import { When } from '../../ui/time'
import { say } from '../../ui/toast'
import { ProjectName } from '../allocation/ProjectName'

/** FreeProjects are the projects of a tenant that pay nothing, and why. */
export function FreeProjects({ orgId, onClose }: { orgId: string; onClose: () => void }) {
  const queries = useQueryClient()
  const path = { org_id: orgId }
  const [project, setProject] = useState('')
  const [reason, setReason] = useState('')
  const free = usePages(['billing-accounts', orgId, 'free'], (cursor) => got(api.GET('/api/v1/tenants/{org_id}/billing-account/free-projects', { params: { path, query: { cursor, page_size: 100 } } })))
  const projects = useQuery({ queryKey: ['projects', 'of', orgId, 'all'], queryFn: () => readAll((cursor) => got(api.GET('/api/v1/tenants/{org_id}/projects', { params: { path, query: { cursor, page_size: largestPage } } }))) })
  const others = (projects.data?.rows ?? []).filter((p) => !free.rows.some((f) => f.project_id === p.project_id))
  const chosen = others.some((p) => p.project_id === project) ? project : (others[0]?.project_id ?? '')
  const anew = () => void queries.invalidateQueries({ queryKey: ['billing-accounts', orgId] })
  const doing = useMutation({
    mutationFn: () => got(api.PUT('/api/v1/projects/{project_id}/free-of-charge', { params: { path: { project_id: chosen } }, body: { reason: reason.trim() } })),
    onSuccess: () => {
      say('New allocations of the project are free of charge.')
      setReason('')
      anew()
    },
  })
  const ending = useMutation({
    mutationFn: (project_id: string) => got(api.DELETE('/api/v1/projects/{project_id}/free-of-charge', { params: { path: { project_id } } })),
    onSuccess: () => {
      say('The project pays for new allocations.')
      anew()
    },
  })
  const failed = free.error ?? projects.error ?? ending.error
  const refused = doing.error ? asRefusal(doing.error).fields : {}
  return (
    <Dialog title="Projects that pay nothing" onClose={onClose}>
      <div className="flex flex-col gap-4">
        <p className="text-sm">A change applies to new allocations only. Existing allocations keep their terms.</p>
        {failed && <ProblemNote error={failed} />}
        {(free.loading || projects.isPending) && <Loading what="projects" />}
        {!free.loading && free.rows.length === 0 && <p className="text-sm text-muted">All projects pay.</p>}
        <ul className="flex flex-col divide-y divide-line text-sm">
          {free.rows.map((f) => (
            <li key={f.project_id} className="flex flex-wrap items-center justify-between gap-2 py-2">
              <span className="min-w-0">
                <ProjectName id={f.project_id} />
                <span className="block text-xs text-muted">
                  {f.reason} · since <When at={f.since} />
                </span>
              </span>
              <Button busy={ending.isPending && ending.variables === f.project_id} onClick={() => ending.mutate(f.project_id)}>
                Charge it again
              </Button>
            </li>
          ))}
        </ul>
        {others.length > 0 && (
          <ActForm doing={doing} does="Make it free" leave="Close" disabled={!chosen || !reason.trim()} onClose={onClose}>
            <SelectField label="Project" value={chosen} onChange={setProject} options={others.map((p) => ({ value: p.project_id, label: p.name }))} error={refused.project_id} />
            <ReasonField value={reason} onChange={setReason} hint="The tenant can read it." />
          </ActForm>
        )}
      </div>
    </Dialog>
  )
}
