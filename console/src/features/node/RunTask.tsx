import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState, type SyntheticEvent } from 'react'
import { api, asRefusal, got } from '../../api/client'
import { Button, Facts, Loading, Note } from '../../ui/basics'
import { Dialog } from '../../ui/dialog'
import { ReasonField, SelectField, TextArea, TextField } from '../../ui/form'
import { ProblemNote } from '../../ui/problem'
import { span } from '../../ui/time'
import { say } from '../../ui/toast'
import { typesQuery } from '../agenttask/Tasks'
import { paramsOf, sample } from './params'
import type { Detail } from './queries'

const classes: Record<string, string> = {
  exclusive: 'changes the node: no other task that changes it runs meanwhile',
  user: 'changes accounts: no other task that changes the node runs meanwhile',
  concurrent: 'can run next to any other task',
}

/** RunTask asks a node to do something: the types come from the control plane, parameters are JSON. */
export function RunTask({ node, onClose }: { node: Detail; onClose: () => void }) {
  const types = useQuery(typesQuery)
  const [type, setType] = useState('')
  const [params, setParams] = useState<string>()
  const [reason, setReason] = useState('')
  const [typed, setTyped] = useState('')
  const queries = useQueryClient()
  const navigate = useNavigate()
  const offered = (types.data?.items ?? []).filter((t) => t.on_request)
  const chosen = offered.find((t) => t.type === type) ?? offered[0]
  const text = params ?? sample(chosen?.type ?? '')
  const read = paramsOf(text)
  const harm = chosen?.destroys
  const running = useMutation({
    mutationFn: () => got(api.POST('/api/v1/admin/nodes/{node_id}/tasks', { params: { path: { node_id: node.node_id } }, body: { type: chosen?.type ?? '', params: read.value, reason: reason.trim() } })),
    onSuccess: (task) => {
      say(`${task.type} was requested on ${node.hostname}.`)
      void queries.invalidateQueries({ queryKey: ['tasks'] })
      void navigate({ to: '/tasks/$taskId', params: { taskId: task.task_id } })
    },
  })
  const submit = (e: SyntheticEvent) => {
    e.preventDefault()
    running.mutate()
  }
  return (
    <Dialog title={`Run a task on ${node.hostname}`} onClose={onClose}>
      {types.isPending && <Loading what="the tasks of nodes" />}
      {types.error && <ProblemNote error={types.error} onRetry={() => void types.refetch()} />}
      {chosen && (
        <form onSubmit={submit} className="flex flex-col gap-4">
          <SelectField
            label="Task"
            value={chosen.type}
            onChange={(t) => {
              setType(t)
              setParams(undefined)
              setTyped('') // what was confirmed was another task
            }}
            options={offered.map((t) => ({ value: t.type, label: `${t.type}: ${t.title}` }))}
          />
          <Facts
            of={[
              ['Concurrency', classes[chosen.concurrency_class] ?? chosen.concurrency_class],
              ['Waits for the node', `up to ${span(chosen.patience_seconds)}`],
              ['May take', `${span(chosen.window_seconds)} per attempt, ${chosen.attempts === 1 ? 'one attempt' : `${chosen.attempts} attempts`}`],
            ]}
          />
          <TextArea label="Parameters (JSON)" mono rows={6} value={text} onChange={(p) => {
              setParams(p)
              setTyped('')
            }} error={read.error ?? (running.error ? asRefusal(running.error).fields.params : undefined)} hint="Leave empty if the task takes no parameters." />
          <ReasonField value={reason} onChange={setReason} />
          {harm && (
            <>
              <Note tone="bad" title={node.status === 'active' ? `${node.hostname} is in service: check what this does first` : 'Check what this does first'}>
                <p>{harm}</p>
              </Note>
              <TextField label={`Type “${node.hostname}” to confirm`} required value={typed} onChange={setTyped} />
            </>
          )}
          {running.error && <ProblemNote error={running.error} />}
          <div className="flex justify-end gap-2">
            <Button disabled={running.isPending} onClick={onClose}>Cancel</Button>
            <Button type="submit" look={harm ? 'danger' : 'primary'} busy={running.isPending} disabled={reason.trim() === '' || !!read.error || (!!harm && typed !== node.hostname)}>
              Run it
            </Button>
          </div>
        </form>
      )}
    </Dialog>
  )
}
