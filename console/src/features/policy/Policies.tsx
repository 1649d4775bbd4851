import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { useMe } from '../../app/session'
import { Badge, Button, Card, Loading, Note } from '../../ui/basics'
import { ConfirmDialog } from '../../ui/confirm'
import { SelectField } from '../../ui/form'
import { ProblemNote } from '../../ui/problem'
import { Table, type Column } from '../../ui/table'
import { When } from '../../ui/time'
import { say } from '../../ui/toast'
import { mayIn } from '../access/roles'
import { entriesOf } from '../definition/definition'
import { useCatalog } from '../definition/reading'
import { everyType, keyWords, scopeWords, type Decision, type Level, type Policy } from './policy'
import { policiesKey, policyQuery, takeBack } from './queries'
import { SetPolicy } from './SetPolicy'

const columns: Column<Decision>[] = [
  { key: 'key', title: 'What', width: 'minmax(16rem,1.2fr)', cell: (d) => keyWords[d.key] },
  { key: 'value', title: 'What counts', width: 'minmax(8rem,1fr)', cell: (d) => <strong>{d.value}</strong> },
  { key: 'scope', title: 'Decided by', width: 'minmax(11rem,1fr)', cell: (d) => <Decided decision={d} /> },
  { key: 'rule', title: 'Why', width: 'minmax(12rem,1.2fr)', cell: (d) => <span title={d.rule}>{d.rule}</span> },
  { key: 'said', title: 'What each level says', width: 'minmax(12rem,1.4fr)', cell: (d) => <Said decision={d} /> },
]

function Decided({ decision: d }: { decision: Decision }) {
  return (
    <Badge tone={d.scope === 'built_in' ? 'idle' : 'info'}>
      {scopeWords[d.scope]}
      {d.operation_type === everyType && ', for all types'}
    </Badge>
  )
}

function Said({ decision: d }: { decision: Decision }) {
  const said = d.said.map((s) => `${scopeWords[s.scope]}${s.operation_type === everyType ? ' (all types)' : ''}: ${s.value}`).join('; ')
  return <span title={said}>{said || 'nothing'}</span>
}

/** Policies is what counts for a type of operation at a level, key by key, and which level decided it. */
export function Policies({ of, type, onType }: { of: Level; type: string; onType: (t: string) => void }) {
  const catalog = useCatalog()
  const types = entriesOf(catalog.data ?? []).map((e) => e.newest.operation_type)
  return (
    <div className="flex flex-col gap-4">
      <div className="max-w-md">
        <SelectField
          label="Type of operation"
          value={type}
          onChange={onType}
          options={[{ value: everyType, label: 'all types' }, ...[...new Set([...types, ...(type === everyType ? [] : [type])])].map((t) => ({ value: t, label: t }))]}
          hint="A policy for a type is more specific than one for all types at the same level."
        />
      </div>
      {catalog.error && <ProblemNote error={catalog.error} onRetry={() => void catalog.refetch()} />}
      <One key={`${of.orgId ?? ''} ${of.projectId ?? ''} ${type}`} of={of} type={type} />
    </div>
  )
}

function One({ of, type }: { of: Level; type: string }) {
  const me = useMe()
  const queries = useQueryClient()
  // The version that a change is based on: the one that was seen.
  const [setting, setSetting] = useState<{ policy: Policy; etag: string }>()
  const [removing, setRemoving] = useState(false)
  const policy = useQuery(policyQuery(of, type))
  const manages = of.orgId ? mayIn(me, 'operation_policy:manage', { orgId: of.orgId, projectId: of.projectId }) : me.platform_permissions.includes('operation_policy:manage')
  const p = policy.data?.body
  const done = (text: string) => () => {
    say(text)
    void queries.invalidateQueries({ queryKey: policiesKey })
  }
  if (policy.error) return <ProblemNote error={policy.error} onRetry={() => void policy.refetch()} />
  if (!p) return <Loading what="the policy" />
  const here = scopeWords[p.scope]
  return (
    <Card
      title={type === everyType ? 'What counts for all types' : `What counts for ${type}`}
      actions={
        manages && (
          <>
            {p.version > 0 && <Button onClick={() => setRemoving(true)}>Take back …</Button>}
            <Button onClick={() => setSetting({ policy: p, etag: policy.data?.etag ?? '' })}>Set …</Button>
          </>
        )
      }
    >
      <div className="flex flex-col gap-3">
        {p.effective.hard_denied && <Note tone="bad" title="The platform denies it for good: no tenant and no project can enable it." />}
        {!p.effective.enabled && !p.effective.hard_denied && <Note tone="warn" title="It cannot be run here">{p.reason}</Note>}
        <Table label="Policy" columns={columns} rows={p.effective.why} rowKey={(d) => d.key} />
        <p className="text-sm text-muted">
          {p.version > 0 ? (
            <>
              Here, {here} has set a policy, last changed <When at={p.updated_at} />
              {p.reason && `: ${p.reason}`}.
            </>
          ) : (
            <>Here, {here} has set no policy.</>
          )}{' '}
          {!manages && 'Administrators of the platform set policies of the platform, administrators of a tenant those of the tenant and its projects.'}
        </p>
      </div>
      {setting && <SetPolicy of={of} type={type} policy={setting.policy} etag={setting.etag} onDone={done('The policy is set.')} onClose={() => setSetting(undefined)} />}
      {removing && (
        <ConfirmDialog title="Remove the policy" does="Remove it" act={() => takeBack(of, type)} onDone={done('The policy is removed.')} onClose={() => setRemoving(false)}>
          <p>From now on only the other levels apply here. Runs that have started continue.</p>
        </ConfirmDialog>
      )}
    </Card>
  )
}
