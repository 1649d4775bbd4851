import { useRef } from 'react'
import { api, got } from '../../api/client'
import { useMe } from '../../app/session'
import { Badge, Card, Code, Facts, LinkButton, TextLink } from '../../ui/basics'
import { words } from '../../ui/tone'
import { Copy } from '../../ui/copy'
import { useProject, useTenant } from './reading'
import { byArea, platformMeans, roleMeans } from './roles'
import { Tokens } from './Tokens'

/** You is whoever is signed in: roles, what they include, and tokens. */
export function You() {
  const me = useMe()
  return (
    <div className="flex flex-col gap-4">
      <div className="grid gap-4 lg:grid-cols-2">
        <Card title="Who you are">
          <Facts
            of={[
              ['Name', me.name],
              ['Kind', me.kind === 'user' ? 'a person' : 'a service account'],
              ['Id', <Id key="i" id={me.id} />],
              ['On the platform', <span key="r"><Badge tone={me.platform_role === 'none' ? 'idle' : 'accent'}>{words(me.platform_role)}</Badge> {platformMeans[me.platform_role]}</span>],
              ...(me.scopes.length > 0 ? ([['This session', `narrowed to ${me.scopes.join(', ')}`]] as [string, string][]) : []),
            ]}
          />
          <p className="mt-2 text-xs text-muted">Whoever gives you a role in a tenant or project may ask for your id.</p>
        </Card>
        <Roles />
      </div>
      <Tokens
        title="Your tokens"
        lead="For programs and the command line that act in your name. Sessions of the console are listed here too."
        queryKey={['tokens', 'mine']}
        current={me.token_id}
        scopes={me.permissions}
        mayManage={me.kind === 'user'}
        list={(cursor) => got(api.GET('/api/v1/me/tokens', { params: { query: { cursor, page_size: 50 } } }))}
        create={(body) => got(api.POST('/api/v1/me/tokens', { body }))}
        revoke={(token_id) => got(api.DELETE('/api/v1/me/tokens/{token_id}', { params: { path: { token_id } } }))}
      />
      <Card title="What you may do">
        <p className="mb-2 text-sm text-muted">On anything at all, with this session. What holds on the platform, and so everywhere, stands out.</p>
        <dl className="grid gap-x-6 gap-y-2 text-sm sm:grid-cols-2 xl:grid-cols-4">
          {byArea(me.permissions).map(([area, permissions]) => (
            <div key={area}>
              <dt className="text-muted">{words(area)}</dt>
              <dd className="flex flex-wrap gap-1">
                {permissions.map((p) => (
                  <Badge key={p} tone={me.platform_permissions.includes(p) ? 'accent' : 'idle'}>
                    {words(p.slice(area.length + 1))}
                  </Badge>
                ))}
              </dd>
            </div>
          ))}
        </dl>
        {me.permissions.length === 0 && <p className="text-sm">Nothing yet. Ask whoever administers a tenant or project to give you a role.</p>}
      </Card>
    </div>
  )
}

function Id({ id }: { id: string }) {
  const ref = useRef<HTMLSpanElement>(null)
  return (
    <span className="flex flex-wrap items-center gap-2">
      <span ref={ref}>
        <Code>{id}</Code>
      </span>
      <Copy text={id} from={() => ref.current} />
    </span>
  )
}

function Roles() {
  const me = useMe()
  const none = me.tenants.length === 0 && me.projects.length === 0
  return (
    <Card title="Your roles in tenants and projects" actions={me.permissions.includes('audit:read') && me.platform_role === 'none' && <LinkButton to="/audit">Audit log of your tenants</LinkButton>}>
      {none && <p className="text-sm text-muted">{me.platform_role === 'none' ? 'You have none yet. Give your id to whoever administers a tenant or project.' : 'None: your role on the platform holds everywhere.'}</p>}
      <ul className="flex flex-col gap-2 text-sm">
        {me.tenants.map((t) => (
          <li key={t.org_id}>
            <Badge tone="accent">{words(t.role)}</Badge> of <TenantName id={t.org_id} />: {roleMeans[t.role]}
          </li>
        ))}
        {me.projects.map((p) => (
          <li key={p.project_id}>
            <Badge tone="info">{words(p.role)}</Badge> of <ProjectName id={p.project_id} />: {roleMeans[p.role]}
          </li>
        ))}
      </ul>
    </Card>
  )
}

function TenantName({ id }: { id: string }) {
  const tenant = useTenant(id)
  return <TextLink to={`/access/tenants/${id}`}>{tenant.data?.body.name ?? id}</TextLink>
}

function ProjectName({ id }: { id: string }) {
  const project = useProject(id)
  return <TextLink to={`/access/projects/${id}`}>{project.data?.body.name ?? id}</TextLink>
}
