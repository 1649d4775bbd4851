import { describe, expect, it } from 'vitest'
import { byArea, mayIn, permissionsOf, slugFrom, slugProblem } from './roles'

const nobody = { platform_permissions: [], permissions: [], tenants: [], projects: [] }

describe('mayIn', () => {
  const admin = { ...nobody, permissions: ['member:manage', 'project:create'], tenants: [{ org_id: 'acme', role: 'tenant_admin' as const }] }

  it('goes by the role on the tenant, also in its projects', () => {
    expect(mayIn(admin, 'project:create', { orgId: 'acme' })).toBe(true)
    expect(mayIn(admin, 'member:manage', { orgId: 'acme', projectId: 'p1' })).toBe(true)
    expect(mayIn(admin, 'member:manage', { orgId: 'other', projectId: 'p1' })).toBe(false)
  })

  it('goes by the role in the project, and not beyond it', () => {
    const member = { ...nobody, permissions: ['service_account:read', 'member:manage'], projects: [{ org_id: 'acme', project_id: 'p1', role: 'project_member' as const }] }
    expect(mayIn(member, 'service_account:read', { orgId: 'acme', projectId: 'p1' })).toBe(true)
    expect(mayIn(member, 'member:manage', { orgId: 'acme', projectId: 'p1' })).toBe(false)
    expect(mayIn(member, 'service_account:read', { orgId: 'acme', projectId: 'p2' })).toBe(false)
  })

  it('does not go beyond a token that was narrowed', () => {
    expect(mayIn({ ...admin, permissions: ['member:read'] }, 'member:manage', { orgId: 'acme' })).toBe(false)
  })

  it('goes by the platform before all', () => {
    expect(mayIn({ ...nobody, platform_permissions: ['member:manage'] }, 'member:manage', { orgId: 'any' })).toBe(true)
  })
})

describe('permissionsOf', () => {
  it('grows with the role', () => {
    const [viewer, member, admin] = [permissionsOf('project_viewer'), permissionsOf('project_member'), permissionsOf('project_admin')]
    for (const p of viewer) expect(member).toContain(p)
    for (const p of member) expect(admin).toContain(p)
    expect(viewer).not.toContain('member:manage')
  })
})

describe('byArea', () => {
  it('groups and sorts', () => {
    expect(byArea(['node:read', 'audit:read', 'node:manage'])).toEqual([
      ['audit', ['audit:read']],
      ['node', ['node:manage', 'node:read']],
    ])
  })
})

describe('slugs', () => {
  it.each([
    ['Acme Inc.', 'acme-inc'],
    ['  Öl & Gas  ', 'ol-gas'],
    ['…', ''],
  ])('of %s is %s', (name, slug) => expect(slugFrom(name)).toBe(slug))

  it('proposes nothing that is refused', () => {
    const long = slugFrom(`${'a'.repeat(62)} b`)
    expect(slugProblem(long)).toBeUndefined()
  })

  it('says what is wrong', () => {
    for (const slug of ['', '-a', 'a-', 'A', 'a_b', 'a'.repeat(64)]) expect(slugProblem(slug)).toBeTruthy()
    for (const slug of ['a', 'a-b', '0']) expect(slugProblem(slug)).toBeUndefined()
  })
})
