import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api, asRefusal, got, type Schemas } from '../../api/client'
import { usePages } from '../../api/pages'
import { ActForm } from '../../ui/actform'
import { Badge, Button, Card, Loading } from '../../ui/basics'
import { Dialog } from '../../ui/dialog'
import { SelectField, TextField } from '../../ui/form'
import { ProblemNote } from '../../ui/problem'
import { When } from '../../ui/time'
import { say } from '../../ui/toast'
import { words } from '../../ui/tone'
import { ConfirmDialog } from '../../ui/confirm'
import { ifMatch } from '../site/siteQueries'
import { permissionsOf, projectRoles, roleMeans, type ProjectRole } from './roles'
import { Tokens } from './Tokens'

type Account = Schemas['IdentityServiceAccountView']

const roleOptions = projectRoles.map((r) => ({ value: r, label: `${words(r)}: ${roleMeans[r]}` }))

/** ServiceAccounts is the programs that act in a project, each with its tokens. */
export function ServiceAccounts({ projectId, mayManage }: { projectId: string; mayManage: boolean }) {
  const [making, setMaking] = useState(false)
  const pages = usePages(['service-accounts', projectId], (cursor) => got(api.GET('/api/v1/projects/{project_id}/service-accounts', { params: { path: { project_id: projectId }, query: { cursor, page_size: 50 } } })))
  return (
    <Card title="Service accounts" actions={mayManage && <Button onClick={() => setMaking(true)}>New service account …</Button>}>
      <p className="mb-2 text-sm text-muted">Programs that act in this project, with tokens of their own.</p>
      {pages.error && <ProblemNote error={pages.error} onRetry={pages.retry} />}
      {pages.loading && <Loading what="service accounts" />}
      {!pages.loading && !pages.error && pages.rows.length === 0 && <p className="text-sm">There is none yet.{mayManage && ' Make one for each program, so that each can be stopped by itself.'}</p>}
      <ul className="flex flex-col divide-y divide-line">
        {pages.rows.map((a) => (
          <OneAccount key={a.service_account_id} account={a} mayManage={mayManage} />
        ))}
      </ul>
      {pages.hasMore && (
        <Button className="mt-2" disabled={!pages.more} onClick={pages.more}>
          Show more
        </Button>
      )}
      {making && <NewAccount projectId={projectId} onClose={() => setMaking(false)} />}
    </Card>
  )
}

function OneAccount({ account: a, mayManage }: { account: Account; mayManage: boolean }) {
  const queries = useQueryClient()
  const [open, setOpen] = useState(false)
  const [deleting, setDeleting] = useState(false)
  const path = { project_id: a.project_id, service_account_id: a.service_account_id }
  const readAnew = () => queries.invalidateQueries({ queryKey: ['service-accounts'] })
  const disabled = a.status === 'disabled'
  const change = useMutation({
    mutationFn: (body: Schemas['IdentityServiceAccountChangeBody']) => got(api.PATCH('/api/v1/projects/{project_id}/service-accounts/{service_account_id}', { params: { path, header: ifMatch(a) }, body })),
    onSuccess: (now) => {
      say(`${now.name} is ${now.status}, with role ${words(now.role)}.`)
      return readAnew()
    },
  })
  return (
    <li className="flex flex-col gap-2 py-2 text-sm">
      <div className="flex flex-wrap items-center gap-x-3 gap-y-1">
        <div className="min-w-0 flex-1">
          <p className="flex flex-wrap items-center gap-2">
            <span className="font-medium break-words">{a.name}</span>
            <Badge tone="info" title={roleMeans[a.role]}>
              {words(a.role)}
            </Badge>
            <Badge tone={disabled ? 'warn' : 'ok'}>{a.status}</Badge>
          </p>
          <p className="text-xs text-muted">
            Made <When at={a.created_at} />
          </p>
        </div>
        <div className="flex flex-wrap gap-2">
          <Button aria-expanded={open} onClick={() => setOpen(!open)}>
            {open ? 'Hide tokens' : 'Tokens'}
          </Button>
          {mayManage && (
            <>
              <Button busy={change.isPending} onClick={() => change.mutate({ status: disabled ? 'active' : 'disabled' })} title={disabled ? 'Its tokens are accepted again.' : 'Its tokens are refused until it is active again.'}>
                {disabled ? 'Enable' : 'Disable'}
              </Button>
              <Button onClick={() => setDeleting(true)}>Delete …</Button>
            </>
          )}
        </div>
      </div>
      {change.error && <ProblemNote error={change.error} />}
      {open && (
        <div className="flex flex-col gap-2">
          {mayManage && (
            <div className="max-w-xl">
              <SelectField label={`Role of ${a.name}`} value={a.role} disabled={change.isPending} onChange={(role) => change.mutate({ role: role as ProjectRole })} options={roleOptions} />
            </div>
          )}
          <Tokens
            title={`Tokens of ${a.name}`}
            lead="Each is shown once, when it is made."
            queryKey={['tokens', 'of', a.service_account_id]}
            scopes={permissionsOf(a.role)}
            mayManage={mayManage}
            list={(cursor) => got(api.GET('/api/v1/projects/{project_id}/service-accounts/{service_account_id}/tokens', { params: { path, query: { cursor, page_size: 50 } } }))}
            create={(body) => got(api.POST('/api/v1/projects/{project_id}/service-accounts/{service_account_id}/tokens', { params: { path }, body }))}
            revoke={(token_id) => got(api.DELETE('/api/v1/projects/{project_id}/service-accounts/{service_account_id}/tokens/{token_id}', { params: { path: { ...path, token_id } } }))}
          />
        </div>
      )}
      {deleting && (
        <ConfirmDialog
          title={`Delete ${a.name}`}
          does="Delete"
          danger
          confirm={a.name}
          act={() => got(api.DELETE('/api/v1/projects/{project_id}/service-accounts/{service_account_id}', { params: { path } }))}
          onDone={() => {
            say(`${a.name} is deleted.`)
            void readAnew()
          }}
          onClose={() => setDeleting(false)}
        >
          <p>All of its tokens are revoked at once: programs that use them are refused. Its name can be used again.</p>
        </ConfirmDialog>
      )}
    </li>
  )
}

function NewAccount({ projectId, onClose }: { projectId: string; onClose: () => void }) {
  const queries = useQueryClient()
  const [name, setName] = useState('')
  const [role, setRole] = useState<string>('project_member')
  const making = useMutation({
    mutationFn: () => got(api.POST('/api/v1/projects/{project_id}/service-accounts', { params: { path: { project_id: projectId } }, body: { name: name.trim(), role: role as ProjectRole } })),
    onSuccess: () => {
      say(`${name.trim()} is created. Make a token for it next.`)
      void queries.invalidateQueries({ queryKey: ['service-accounts'] })
      onClose()
    },
  })
  return (
    <Dialog title="New service account" onClose={onClose}>
      <ActForm doing={making} does="Create" leave="Cancel" disabled={name.trim() === ''} onClose={onClose}>
        <TextField label="Name" required value={name} onChange={setName} hint="Which program it is, such as ci. Once in the project." error={making.error ? asRefusal(making.error).fields.name : undefined} />
        <SelectField label="Role" value={role} onChange={setRole} options={roleOptions} />
      </ActForm>
    </Dialog>
  )
}
