import { api, got } from '../../api/client'
import { useMe } from '../../app/session'
import { Page } from '../../ui/basics'
import { useProject } from '../access/reading'
import { mayIn } from '../access/roles'
import { SSHKeys } from './SSHKeys'

/** Keys is the SSH keys of whoever is signed in, and those of the projects they work in. */
export default function Keys() {
  const me = useMe()
  return (
    <Page title="SSH keys" lead="What you log in with to what you rent. Only public keys are kept.">
      {me.kind === 'user' && (
        <SSHKeys
          title="Yours"
          lead="Nobody else sees or changes them. Choose among them when you rent something."
          queryKey={['ssh-keys', 'mine']}
          mayManage={me.scopes.length === 0 || me.scopes.includes('ssh_key:manage')}
          list={(cursor) => got(api.GET('/api/v1/me/ssh-keys', { params: { query: { cursor, page_size: 50 } } }))}
          add={(body) => got(api.POST('/api/v1/me/ssh-keys', { body }))}
          remove={(ssh_key_id) => got(api.DELETE('/api/v1/me/ssh-keys/{ssh_key_id}', { params: { path: { ssh_key_id } } }))}
        />
      )}
      {me.projects.map((p) => (
        <ProjectKeys key={p.project_id} projectId={p.project_id} orgId={p.org_id} />
      ))}
    </Page>
  )
}

/** ProjectKeys is the SSH keys that a project shares. */
export function ProjectKeys({ projectId, orgId, title }: { projectId: string; orgId: string; title?: string }) {
  const me = useMe()
  const project = useProject(projectId)
  const may = (permission: 'ssh_key:read' | 'ssh_key:manage') => mayIn(me, permission, { orgId, projectId })
  const path = { project_id: projectId }
  if (!may('ssh_key:read')) return null
  return (
    <SSHKeys
      title={title ?? `Of the project ${project.data?.body.name ?? projectId}`}
      lead="Everybody in the project can choose them for what the project rents."
      queryKey={['ssh-keys', 'project', projectId]}
      mayManage={may('ssh_key:manage')}
      list={(cursor) => got(api.GET('/api/v1/projects/{project_id}/ssh-keys', { params: { path, query: { cursor, page_size: 50 } } }))}
      add={(body) => got(api.POST('/api/v1/projects/{project_id}/ssh-keys', { params: { path }, body }))}
      remove={(ssh_key_id) => got(api.DELETE('/api/v1/projects/{project_id}/ssh-keys/{ssh_key_id}', { params: { path: { ...path, ssh_key_id } } }))}
    />
  )
}
