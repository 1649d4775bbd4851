import { useParam, useSearchState } from '../../app/location'
import { useMe } from '../../app/session'
import { Badge, Card, Code, Facts, LinkButton, Loading, Note, Page, State, TextLink } from '../../ui/basics'
import { ProblemNote } from '../../ui/problem'
import { span } from '../../ui/time'
import { mayRunSomewhere } from '../operation/operation'
import { approvalWords, entriesOf, impactTone, impactWords, rentedWords, riskTone, type Definition } from './definition'
import { useCatalog, useDefinition } from './reading'
import { fieldsOf } from './schema'
import { StepList } from './StepList'

/** DefinitionPage is one version of what can be run: what it does, what it takes, and how risky it is. */
export default function DefinitionPage() {
  const id = useParam('definitionId')
  const me = useMe()
  const [search] = useSearchState()
  const definition = useDefinition(id)
  const d = definition.data
  return (
    <Page
      back={<TextLink to="/operations/catalog">Catalog</TextLink>}
      title={d ? <>{d.title} <State of="definition" is={d.status} /></> : id}
      lead={d?.description}
      actions={
        d && (
          <>
            <LinkButton to="/operations" search={{ type: d.operation_type }}>
              Its runs
            </LinkButton>
            <LinkButton to="/operations/policies" search={{ type: d.operation_type }}>
              What the policy says
            </LinkButton>
            {mayRunSomewhere(me) && d.status !== 'retired' && d.status !== 'draft' && (
              <LinkButton look="primary" to="/operations/new" search={{ operation: d.definition_id, ...(search.project ? { project: search.project } : {}) }}>
                Run …
              </LinkButton>
            )}
          </>
        )
      }
    >
      {definition.error && <ProblemNote error={definition.error} onRetry={() => void definition.refetch()} />}
      {definition.isPending && <Loading what="the definition" />}
      {d && <Shown definition={d} />}
    </Page>
  )
}

function Shown({ definition: d }: { definition: Definition }) {
  const fields = fieldsOf(d.inputs)
  return (
    <>
      {d.status === 'deprecated' && <Note tone="warn" title="This version is deprecated">{d.status_reason ?? 'It can still be run; use a newer one.'}</Note>}
      <div className="grid gap-4 lg:grid-cols-2">
        <Card title="What it is">
          <Facts
            of={[
              ['Type and version', <Code key="i">{d.definition_id}</Code>],
              ['Risk', <span key="r"><Badge tone={riskTone[d.risk]}>{d.risk}</Badge> {d.risk_text}</span>],
              ['On the node', <Badge key="m" tone={impactTone[d.impact]}>{impactWords[d.impact]}</Badge>],
              ['Runs on', rentedWords[d.rented]],
              ['Targets', d.targets.join(', ')],
              ['Approved by', approvalWords[d.approval]],
              ['Time limit per node', `${span(d.max_duration_seconds)} for all steps`],
              ...Object.entries(d.requires ?? {}).map(([fact, values]): [string, string] => [`Needs ${fact}`, (values ?? []).join(' or ')]),
              ['Digest', <Code key="d">{d.digest}</Code>],
            ]}
          />
          <Versions of={d} />
        </Card>
        <Card title="Steps">
          <StepList steps={d.steps} />
        </Card>
      </div>
      <Card title="Inputs">
        {fields.length === 0 ? (
          <p className="text-sm text-muted">It takes no inputs.</p>
        ) : (
          <Facts of={fields.map((f) => [`${f.label}${f.required ? ' (required)' : ''}`, <span key={f.name}><Code>{f.name}</Code> {f.hint}</span>])} />
        )}
      </Card>
    </>
  )
}

function Versions({ of }: { of: Definition }) {
  const catalog = useCatalog()
  const versions = entriesOf(catalog.data ?? []).find((e) => e.newest.operation_type === of.operation_type)?.versions ?? []
  if (versions.length < 2) return null
  return (
    <p className="mt-3 flex flex-wrap items-center gap-2 text-sm">
      <span className="text-muted">Versions</span>
      {versions.map((v) => (v.version === of.version ? <strong key={v.version}>{v.version}</strong> : <TextLink key={v.version} to={`/operations/catalog/${v.definition_id}`}>{v.version}</TextLink>))}
    </p>
  )
}
