import { grants as granted } from '../../api/gen/enums'
import type { Schemas } from '../../api/client'
import type { Me, Permission } from '../../app/session'

export type ProjectRole = Schemas['IdentityProjectRoleBody']['role']
export type Role = ProjectRole | 'tenant_admin'

// What a role on a tenant or in a project includes, by the control plane's own table. It
// decides what is shown; what is allowed, the control plane decides.
const grants: Record<Role, readonly string[]> = granted

export const projectRoles: ProjectRole[] = ['project_viewer', 'project_member', 'project_admin']

export const roleMeans: Record<Role, string> = {
  project_viewer: 'sees the project and who is in it',
  project_member: 'works in the project, and sees its service accounts',
  project_admin: 'also decides who is in it, and over its service accounts',
  tenant_admin: 'may do all that in every project of the tenant, make projects, set their quotas and budgets, and read what concerns the tenant in the audit log',
}

export const platformMeans: Record<Schemas['IdentityUserView']['platform_role'], string> = {
  platform_admin: 'may do everything',
  operator: 'may do everything with machines, and nothing with people, signers and secrets',
  auditor: 'sees everything and changes nothing',
  none: 'only what tenants and projects give them',
}

type Holder = Pick<Me, 'platform_permissions' | 'permissions' | 'tenants' | 'projects'>

/** mayIn says whether somebody holds a permission on a tenant, or in one of its projects. */
export function mayIn(me: Holder, permission: Permission, where: { orgId: string; projectId?: string }): boolean {
  if (me.platform_permissions.includes(permission)) return true
  // The token may be narrower than the roles of its owner.
  if (!me.permissions.includes(permission)) return false
  const roles: Role[] = [
    ...me.tenants.filter((t) => t.org_id === where.orgId).map((t) => t.role),
    ...me.projects.filter((p) => p.project_id === where.projectId).map((p) => p.role),
  ]
  return roles.some((r) => grants[r].includes(permission))
}

/** permissionsOf is what a service account with a role can be narrowed to. */
export function permissionsOf(role: ProjectRole): string[] {
  return [...grants[role]].sort()
}

/** byArea groups permissions by what they are about: node:read and node:manage under node. */
export function byArea(permissions: string[]): [area: string, permissions: string[]][] {
  const areas = new Map<string, string[]>()
  for (const p of [...permissions].sort()) {
    const area = p.slice(0, p.indexOf(':'))
    areas.set(area, [...(areas.get(area) ?? []), p])
  }
  return [...areas]
}

/** slugFrom proposes a name for machines from one for people. */
export function slugFrom(name: string): string {
  return name
    .normalize('NFKD')
    .toLowerCase()
    .replace(/\p{M}/gu, '')
    .replace(/[^a-z0-9]+/g, '-')
    .slice(0, 63)
    .replace(/^-+|-+$/g, '')
}

/** slugProblem says what is wrong with a name for machines. */
export function slugProblem(slug: string): string | undefined {
  if (slug === '') return 'Give it a name for machines.'
  if (slug.length > 63) return '63 characters at most.'
  if (!/^[a-z0-9]([a-z0-9-]*[a-z0-9])?$/.test(slug)) return 'Small letters, digits and hyphens; a letter or digit at both ends.'
  return undefined
}
