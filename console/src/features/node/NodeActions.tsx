import { useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { api, got } from '../../api/client'
import { useMay } from '../../app/session'
import { Button } from '../../ui/basics'
import { ReasonDialog } from '../../ui/dialog'
import { say } from '../../ui/toast'
import { words } from '../../ui/tone'
import { actionsOf, turnovers, type Action } from './actions'
import { EditNode } from './EditNode'
import { IssueBootstrap } from './IssueBootstrap'
import { LiftHold } from './LiftHold'
import { Menu, type Entry } from '../../ui/menu'
import type { Detail } from './queries'
import { RunTask } from './RunTask'

type Opened = Action | 'edit'

const titles: Record<Action, string> = {
  hold: 'Hold',
  unhold: 'Lift a hold',
  quarantine: 'Quarantine',
  return_to_service: 'Return to service',
  task: 'Run a task',
  bootstrap: 'Issue a bootstrap',
  recovery: 'Issue a recovery bootstrap',
  revoke: 'Revoke the identity',
}

const hints: Partial<Record<Action, string>> = {
  bootstrap: 'A new command that lets the machine enrol.',
  recovery: 'A command that gives the enrolled agent a new certificate.',
  revoke: 'The control plane no longer accepts its agent.',
}

/** called is a mode as a menu shows it, with a capital. */
function called(mode: string): string {
  const name = words(mode)
  return name.charAt(0).toUpperCase() + name.slice(1)
}

/** NodeActions is what one may do to a node: only what its state allows and the role permits is there. */
export function NodeActions({ node, etag }: { node: Detail; etag: string }) {
  const may = useMay()
  const navigate = useNavigate()
  const [opened, setOpened] = useState<Opened>()
  const allowed = actionsOf(node).filter((a) => may(a === 'task' ? 'node_task:run' : 'node:manage'))
  const button = (a: Action) => allowed.includes(a) && <Button look={a === 'return_to_service' ? 'primary' : 'plain'} onClick={() => setOpened(a)}>{titles[a]}</Button>
  const more: Entry[] = (['bootstrap', 'recovery', 'revoke'] as const).filter((a) => allowed.includes(a)).map((a) => ({ key: a, title: titles[a], hint: hints[a], onSelect: () => setOpened(a) }))
  if (may('node:manage') && node.status !== 'deleted') more.unshift({ key: 'edit', title: 'Edit', hint: 'Address, GPUs, the desired agent version.', onSelect: () => setOpened('edit') })
  if (may('fleet_operation:run') && node.status === 'active') more.unshift({ key: 'operation', title: 'Run an operation', hint: 'Install packages, write files, run checks. You see the plan first.', onSelect: () => void navigate({ to: '/operations/new', search: { nodes: node.hostname } }) })
  const plans: Entry[] = turnovers(node).map((t) => ({ key: t.mode, title: called(t.mode), hint: t.hint, onSelect: () => void navigate({ to: '/decommissions', search: { plan: node.node_id, mode: t.mode } }) }))
  return (
    <>
      {button('return_to_service')}
      {button('hold')}
      {button('unhold')}
      {button('quarantine')}
      {button('task')}
      {may('decommission:manage') && <Menu label="Turnover" entries={plans} />}
      <Menu label="More" entries={more} />
      {opened && <Opened what={opened} node={node} etag={etag} onClose={() => setOpened(undefined)} />}
    </>
  )
}

function Opened({ what, onClose, ...shown }: { what: Opened; node: Detail; etag: string; onClose: () => void }) {
  // The node as it was when this was asked: a change that others made meanwhile is refused, not overwritten.
  const [{ node, etag }] = useState(shown)
  const queries = useQueryClient()
  const path = { node_id: node.node_id }
  const done = (text: string) => () => {
    say(text)
    void queries.invalidateQueries({ queryKey: ['nodes'] })
    void queries.invalidateQueries({ queryKey: ['fleet'] })
  }
  switch (what) {
    case 'hold':
      return (
        <ReasonDialog title={`Hold ${node.hostname}`} does="Hold it" act={(reason) => got(api.POST('/api/v1/admin/nodes/{node_id}/holds', { params: { path }, body: { reason } }))} onDone={done(`${node.hostname} is on hold.`)} onClose={onClose}>
          <p>No new work is placed on it until the hold is lifted. Work that is running continues, and other holds stay. Everyone who can see the node sees the reason.</p>
        </ReasonDialog>
      )
    case 'unhold':
      return <LiftHold node={node} onDone={done(`A hold on ${node.hostname} was lifted.`)} onClose={onClose} />
    case 'quarantine':
      return (
        <ReasonDialog title={`Quarantine ${node.hostname}`} does="Quarantine it" danger act={(reason) => got(api.POST('/api/v1/admin/nodes/{node_id}/quarantine', { params: { path }, body: { reason } }))} onDone={done(`${node.hostname} is quarantined.`)} onClose={onClose}>
          <p>No new work is placed on it until an operator returns it to service. Running work continues.</p>
        </ReasonDialog>
      )
    case 'return_to_service':
      return (
        <ReasonDialog title={`Return ${node.hostname} to service`} does="Return it" act={(reason) => got(api.POST('/api/v1/admin/nodes/{node_id}/return-to-service', { params: { path }, body: { reason } }))} onDone={done(`${node.hostname} is in service.`)} onClose={onClose}>
          <p>It becomes active, and schedulable unless it is held. A node that a tenant had access to must first be proven clean: choose Turnover, Soft reset instead.</p>
        </ReasonDialog>
      )
    case 'revoke':
      return (
        <ReasonDialog title={`Revoke the identity of ${node.hostname}`} does="Revoke it" danger confirm={node.hostname} act={(reason) => got(api.POST('/api/v1/admin/nodes/{node_id}/revoke-identity', { params: { path }, body: { reason } }))} onDone={done(`The certificates of ${node.hostname} are revoked.`)} onClose={onClose}>
          <p>Its certificates stop working immediately, the control plane refuses its agent and the node goes offline. To bring it back, issue a recovery bootstrap and run it on the machine.</p>
        </ReasonDialog>
      )
    case 'bootstrap':
    case 'recovery':
      return <IssueBootstrap node={node} purpose={what} onClose={onClose} />
    case 'task':
      return <RunTask node={node} onClose={onClose} />
    case 'edit':
      return <EditNode node={node} etag={etag} onClose={onClose} />
  }
}
