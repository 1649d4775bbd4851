import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { api, asRefusal, got, type Schemas } from '../../api/client'
import { useSearchState } from '../../app/location'
import { useMe } from '../../app/session'
import { Badge, Button, Card, Empty, Loading, Note, Page, TextLink } from '../../ui/basics'
import { SelectField, TextArea, TextField } from '../../ui/form'
import { ProblemNote } from '../../ui/problem'
import { say } from '../../ui/toast'
import { mayIn } from '../access/roles'
import { useProjects, type Project } from '../allocation/projects'
import { entriesOf, riskTone, type Definition } from '../definition/definition'
import { Inputs } from '../definition/Inputs'
import { useCatalog } from '../definition/reading'
import { draftOf, fieldsOf, inputsOf } from '../definition/schema'
import { Limits, Targets } from './Choosing'
import type { Plan } from './operation'
import { PlanView } from './PlanView'
import { planRun, runsKey, submitRun, type Where } from './queries'
import { blank, wishOf, type Choice } from './request'

const platform = 'platform'

/** NewRun asks for a run: what, with which inputs, on which nodes. It is planned before it is run. */
export default function NewRun() {
  const me = useMe()
  const [search, change] = useSearchState()
  const catalog = useCatalog()
  const { projects, loading } = useProjects()
  const onFleet = me.platform_permissions.includes('fleet_operation:run')
  const mine = projects.filter((p) => mayIn(me, 'operation:run', { orgId: p.org_id, projectId: p.project_id }))
  const project = mine.find((p) => p.project_id === search.project) ?? (onFleet ? undefined : mine[0])
  const entries = entriesOf(catalog.data ?? [])
  const all = entries.flatMap((e) => e.versions)
  const definition = all.find((d) => d.definition_id === search.operation) ?? entries.find((e) => e.newest.operation_type === search.operation)?.newest
  const nowhere = !onFleet && mine.length === 0
  return (
    <Page back={<TextLink to="/operations" search={project ? { project: project.project_id } : {}}>Operations</TextLink>} title="Run an operation" lead="Choose an operation and its nodes. The plan shows for each node whether it can run, and nothing starts before you have seen the plan.">
      {catalog.error && <ProblemNote error={catalog.error} onRetry={() => void catalog.refetch()} />}
      {(catalog.isPending || loading) && <Loading what="what can be run" />}
      {!loading && nowhere && <Empty title="You may not run operations">You need to be a member of a project, or an operator. Ask an administrator of the project for a role.</Empty>}
      {catalog.data && !loading && !nowhere && (
        <>
          <div className="grid gap-4 md:grid-cols-2">
            <SelectField
              label="What to run"
              required
              value={definition?.definition_id ?? ''}
              onChange={(operation) => change({ operation })}
              options={[...(definition ? [] : [{ value: '', label: 'choose …' }]), ...all.map((d) => ({ value: d.definition_id, label: `${d.title} (${d.definition_id}${d.status === 'deprecated' ? ', deprecated' : ''})` }))]}
              hint={definition?.description}
            />
            {(onFleet ? mine.length > 0 : mine.length > 1) && (
              <SelectField
                label="Run for"
                value={project?.project_id ?? platform}
                onChange={(v) => change({ project: v === platform ? undefined : v })}
                options={[...(onFleet ? [{ value: platform, label: 'the platform: nodes of the fleet' }] : []), ...mine.map((p) => ({ value: p.project_id, label: `${p.name}: what it rents` }))]}
              />
            )}
          </div>
          {definition && <Form key={`${definition.definition_id} ${project?.project_id ?? platform}`} definition={definition} project={project} nodes={search.nodes} allocation={search.allocation} />}
        </>
      )}
    </Page>
  )
}

type Body = Schemas['OperationSubmitBody']
type Planned = { plan: Plan; body: Body; of: string }

/** nodesNamed looks nodes up by their names. */
async function nodesNamed(names: string[]): Promise<string[]> {
  const found = await Promise.all(names.map(async (hostname) => ({ hostname, node: (await got(api.GET('/api/v1/admin/nodes', { params: { query: { hostname, page_size: 1 } } }))).items[0] })))
  const missing = found.filter((f) => !f.node).map((f) => f.hostname)
  if (missing.length > 0) throw new Error(`There is no node called ${missing.join(', ')}. Write names as the list of nodes has them.`)
  return found.flatMap((f) => f.node?.node_id ?? [])
}

function Form({ definition: d, project, nodes, allocation }: { definition: Definition; project?: Project; nodes?: string; allocation?: string }) {
  const queries = useQueryClient()
  const navigate = useNavigate()
  const where: Where = { projectId: project?.project_id }
  const fields = fieldsOf(d.inputs)
  const [draft, setDraft] = useState(() => draftOf(fields))
  const [choice, setChoice] = useState<Choice>({ ...blank, names: nodes ?? '', allocations: allocation ? [allocation] : [] })
  const [planned, setPlanned] = useState<Planned>()
  // What is missing is said when a plan is asked for, not before anything was typed.
  const [asked, setAsked] = useState(false)
  const [typed, setTyped] = useState('')
  const change = (patch: Partial<Choice>) => setChoice((before) => ({ ...before, ...patch }))
  const { inputs, wrong, ready } = inputsOf(fields, draft)
  const { wish, names, wrong: bad, chosen } = wishOf(choice, !!project)
  const of = JSON.stringify([inputs, { ...wish, reason: undefined }, names])
  const right = ready && chosen && Object.keys(bad).length === 0
  const planning = useMutation({
    mutationFn: async (): Promise<Planned> => {
      const ids = await nodesNamed(names)
      const body: Body = { ...wish, operation: d.definition_id, inputs, targets: { ...wish.targets, nodes: ids.length > 0 ? ids : undefined } }
      return { plan: await planRun(where, body), body, of }
    },
    onSuccess: setPlanned,
    onError: () => setPlanned(undefined),
  })
  const running = useMutation({
    mutationFn: (p: Planned) => submitRun(where, { ...p.body, reason: wish.reason, plan_hash: p.plan.plan_hash }),
    onSuccess: (run) => {
      say('The run has begun.')
      void queries.invalidateQueries({ queryKey: runsKey })
      void navigate({ to: `/operations/${run.operation_id}`, search: run.project_id ? { project: run.project_id } : {} })
    },
  })
  const refused = planning.error ? inputFields(asRefusal(planning.error).fields) : {}
  const current = planned && planned.of === of ? planned : undefined
  const grave = d.risk === 'high' && !choice.onlyPlan
  return (
    <form
      noValidate
      className="flex flex-col gap-4"
      onSubmit={(e) => {
        e.preventDefault()
        setAsked(true)
        running.reset()
        if (right) planning.mutate()
      }}
    >
      <Note tone={riskTone[d.risk]} title={<>Risk: {d.risk}</>}>{d.risk_text}</Note>
      <Card title="Inputs">
        <Inputs fields={fields} draft={draft} onChange={setDraft} wrong={asked ? { ...refused, ...wrong } : onlyTyped(wrong, draft)} />
      </Card>
      <Card title="On which nodes">
        <Targets project={project} choice={choice} change={change} wrong={bad} />
        {asked && !chosen && <p role="alert" className="mt-2 text-xs text-bad">Choose at least one node.</p>}
      </Card>
      <Limits choice={choice} change={change} wrong={bad} />
      {planning.error && <ProblemNote error={planning.error} />}
      <div className="flex flex-wrap items-center gap-3">
        <Button type="submit" look={current ? 'plain' : 'primary'} busy={planning.isPending}>
          {planned ? 'Plan again' : 'Plan'}
        </Button>
        {planned && !current && <Badge tone="warn">The plan is out of date because you changed the request.</Badge>}
        {asked && !right && <span className="text-sm text-bad">Correct what is marked; nothing has been sent.</span>}
      </div>
      {current && (
        <>
          <PlanView plan={current.plan} />
          <div className="max-w-xl">
            <TextArea label="Reason" rows={2} most={500} value={choice.reason} onChange={(reason) => change({ reason })} hint="Why, for whoever reads the run or the audit log." />
          </div>
          {grave && (
            <div className="max-w-xl">
              <TextField label={`Type “${d.operation_type}” to confirm`} required value={typed} onChange={setTyped} />
            </div>
          )}
          {running.error && <ProblemNote error={running.error} />}
          <div>
            <Button look={grave ? 'danger' : 'primary'} busy={running.isPending} disabled={current.plan.fitting === 0 || (grave && typed.trim() !== d.operation_type)} onClick={() => running.mutate(current)}>
              {choice.onlyPlan ? 'Look' : 'Run'} on {current.plan.fitting} of {current.plan.targets.length} {current.plan.targets.length === 1 ? 'node' : 'nodes'}
            </Button>
            {current.plan.fitting === 0 && <p className="mt-1 text-sm text-muted">No node can do it; the plan says why.</p>}
          </div>
        </>
      )}
    </form>
  )
}

/** inputFields is what the control plane says of each input, by its name. */
const inputFields = (fields: Record<string, string>) => Object.fromEntries(Object.entries(fields).map(([path, message]) => [path.replace(/^inputs\./, ''), message]))

/** onlyTyped leaves out what is said of fields in which nothing stands yet. */
const onlyTyped = (wrong: Record<string, string>, draft: Record<string, string>) => Object.fromEntries(Object.entries(wrong).filter(([name]) => draft[name]))
