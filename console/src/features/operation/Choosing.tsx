import { useQuery } from '@tanstack/react-query'
import { api, got } from '../../api/client'
import { largestPage, readAll } from '../../api/readall'
import { Button, Loading, State } from '../../ui/basics'
import { CheckField, SelectField, TextArea, TextField } from '../../ui/form'
import { ProblemNote } from '../../ui/problem'
import { called } from '../allocation/allocation'
import type { Project } from '../allocation/projects'
import { useOffered } from '../sku/offered'
import type { Choice } from './request'

type Props = { choice: Choice; change: (patch: Partial<Choice>) => void; wrong: Partial<Record<keyof Choice, string>> }

/** Targets chooses nodes: operators by name or by what they have in common, a project from what it rents. */
export function Targets({ project, ...rest }: Props & { project?: Project }) {
  return project ? <Rented project={project} {...rest} /> : <Nodes {...rest} />
}

function Nodes({ choice, change, wrong }: Props) {
  const { skus } = useOffered()
  return (
    <div className="flex flex-col gap-4">
      <TextArea label="Names of nodes" rows={2} value={choice.names} onChange={(names) => change({ names })} hint="One per line, or separated by spaces or commas." error={wrong.names} />
      <fieldset className="flex flex-col gap-3">
        <legend className="mb-2 text-sm text-muted">Or all nodes that fit all of this; with names, those of them that do</legend>
        <div className="grid gap-4 sm:grid-cols-2 lg:grid-cols-3">
          <TextField label="Rack" value={choice.rack} onChange={(rack) => change({ rack })} />
          <TextField label="Region" value={choice.region} onChange={(region) => change({ region })} />
          <TextField label="Pool" value={choice.pool} onChange={(pool) => change({ pool })} />
          <SelectField label="SKU" value={choice.sku} onChange={(sku) => change({ sku })} options={[{ value: '', label: 'any' }, ...skus.map((s) => ({ value: s.sku_id, label: s.sku_id }))]} />
          <TextField label="Labels" value={choice.labels} onChange={(labels) => change({ labels })} hint="KEY=VALUE, separated by commas." error={wrong.labels} />
        </div>
      </fieldset>
    </div>
  )
}

function Rented({ project, choice, change, wrong }: Props & { project: Project }) {
  const rented = useQuery({
    queryKey: ['allocations', project.project_id, 'active', 'all'],
    queryFn: async () => (await readAll((cursor) => got(api.GET('/api/v1/projects/{project_id}/allocations', { params: { path: { project_id: project.project_id }, query: { status: ['active'], cursor, page_size: largestPage } } })))).rows,
  })
  const toggle = (id: string, on: boolean) => change({ allocations: on ? [...choice.allocations, id] : choice.allocations.filter((a) => a !== id) })
  if (rented.error) return <ProblemNote error={rented.error} onRetry={() => void rented.refetch()} />
  if (!rented.data) return <Loading what="what the project rents" />
  if (rented.data.length === 0) return <p className="text-sm">{project.name} has no active allocation. A project can reach only nodes that it rents.</p>
  return (
    <div className="flex flex-col gap-3">
      <div role="group" aria-label="Allocations" className="flex max-h-64 flex-wrap gap-x-6 gap-y-2 overflow-auto">
        {rented.data.map((a) => (
          <CheckField key={a.allocation_id} label={<>{called(a)} <State of="allocation" is={a.status} /></>} hint={a.hostname} value={choice.allocations.includes(a.allocation_id)} onChange={(on) => toggle(a.allocation_id, on)} />
        ))}
      </div>
      {rented.data.length > 1 && (
        <div className="flex gap-2">
          <Button onClick={() => change({ allocations: rented.data.map((a) => a.allocation_id) })}>All of them</Button>
          <Button onClick={() => change({ allocations: [] })}>None</Button>
        </div>
      )}
      <div className="max-w-md">
        <TextField label="Labels of allocations" value={choice.labels} onChange={(labels) => change({ labels })} hint="KEY=VALUE, separated by commas. Narrows the choice above; alone, it chooses all allocations with these labels." error={wrong.labels} />
      </div>
    </div>
  )
}

/** Limits is how many nodes at a time, when to stop, and whether only to look. */
export function Limits({ choice, change, wrong }: Props) {
  return (
    <details className="rounded-md border border-line bg-surface px-4 py-2.5" open={!!(wrong.atOnce ?? wrong.mayFail) || undefined}>
      <summary className="cursor-pointer text-sm font-medium">Limits: nodes at a time, failures allowed, dry run</summary>
      <div className="mt-3 grid gap-4 sm:grid-cols-2">
        <TextField label="Nodes at a time" value={choice.atOnce} onChange={(atOnce) => change({ atOnce })} hint="A number, or a share such as 20%. Empty: 10, or less where the policy says so." error={wrong.atOnce} />
        <TextField label="Failures allowed" value={choice.mayFail} onChange={(mayFail) => change({ mayFail })} hint="The run pauses when more nodes than this have failed. A number, or a share such as 5%. Empty: 0." error={wrong.mayFail} />
        <CheckField label="Start at full speed" value={choice.noRamp} onChange={(noRamp) => change({ noRamp })} hint="If this is off, the run starts with 1, then 2, then 4 … nodes." />
        <CheckField label="Dry run" value={choice.onlyPlan} onChange={(onlyPlan) => change({ onlyPlan })} hint="Nothing changes on the nodes. Each step reports what it would change." />
      </div>
    </details>
  )
}
