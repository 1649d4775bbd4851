// Package auth says who is asking and what they may do. It knows roles and
// permissions, not tables: package identity builds principals, and package
// httpapi asks for decisions.
package auth

import (
	"context"
	"maps"
	"slices"
	"time"

	"gpuaas/controlplane/internal/base/id"
)

// Kind is the kind of actor that a principal is.
type Kind string

// The kinds of principal.
const (
	KindUser           Kind = "user"
	KindServiceAccount Kind = "service_account"
	KindNode           Kind = "node" // the agent of one, which holds no role
	KindSystem         Kind = "system"
	KindAnonymous      Kind = "anonymous"
)

// Role is a named set of permissions, held on the platform, a tenant or a project.
type Role string

// The roles. The first three are held on the platform.
const (
	PlatformAdmin Role = "platform_admin"
	Operator      Role = "operator"
	Auditor       Role = "auditor"
	TenantAdmin   Role = "tenant_admin"
	ProjectAdmin  Role = "project_admin"
	ProjectMember Role = "project_member"
	ProjectViewer Role = "project_viewer"
	NoRole        Role = "none"
)

// PlatformRoles lists the roles on the platform, Roles every role that can be
// granted.
var (
	PlatformRoles = []Role{PlatformAdmin, Operator, Auditor}
	Roles         = append(slices.Clone(PlatformRoles), TenantAdmin, ProjectAdmin, ProjectMember, ProjectViewer)
)

// Principal is the sender of a request, with all its roles.
type Principal struct {
	Kind     Kind
	ID       string
	Name     string
	Platform Role // PlatformAdmin, Operator, Auditor or empty
	Tenants  map[id.Org]Role
	Projects map[id.Project]ProjectRole
	// Scopes limits what a token may do to these permissions. If it is empty,
	// the token may do all that its owner may. It never adds anything.
	Scopes []Permission
	Token  id.Token
	// Expires is when the token ends. It is zero if there is no token.
	Expires time.Time
}

// ProjectRole is a role in a project, with the tenant the project belongs to.
type ProjectRole struct {
	Org  id.Org
	Role Role
}

// Target is what an operation acts on: the platform (both zero), a tenant, or
// a project together with its tenant.
type Target struct {
	Org     id.Org
	Project id.Project
}

// Decision answers whether a principal may do something.
type Decision int

// The decisions. Hidden is a refusal that must look like absence, because the
// caller must not learn that the target exists.
const (
	Denied Decision = iota
	Hidden
	Allowed
)

// Decide says whether a principal may do something to a target. Whatever no role
// of the principal grants is refused.
func (p *Principal) Decide(want Permission, target Target) Decision {
	roles := p.rolesOn(target)
	switch {
	case len(roles) == 0 && target != Target{}:
		return Hidden
	case !granted(roles, want), !p.InScope(want):
		return Denied
	}
	return Allowed
}

// DecideAnywhere decides about operations that limit their own answer to what
// the caller may see: it is enough to hold the permission on any target.
func (p *Principal) DecideAnywhere(want Permission) Decision {
	roles := p.rolesOn(Target{})
	if p.Platform == "" || p.Platform == Operator {
		for _, role := range p.Tenants {
			roles = append(roles, role)
		}
		for _, pr := range p.Projects {
			roles = append(roles, pr.Role)
		}
	}
	if !granted(roles, want) || !p.InScope(want) {
		return Denied
	}
	return Allowed
}

// granted reports whether one of the roles includes a permission.
func granted(roles []Role, want Permission) bool {
	return slices.ContainsFunc(roles, func(r Role) bool { return grants[r][want] })
}

// rolesOn lists the roles that a principal holds on a target, strongest first.
// An operator may hold a role in a tenant as well, and then holds both there. An
// administrator needs no other role, and an auditor changes nothing anywhere.
func (p *Principal) rolesOn(target Target) []Role {
	switch {
	case p.Kind == KindSystem:
		return []Role{PlatformAdmin}
	case p.Platform == PlatformAdmin, p.Platform == Auditor:
		return []Role{p.Platform}
	}
	return slices.DeleteFunc([]Role{p.roleIn(target), p.Platform}, func(r Role) bool { return r == "" || r == NoRole })
}

// RoleOn returns the strongest role that a principal holds on a target, or
// NoRole.
func (p *Principal) RoleOn(target Target) Role {
	if roles := p.rolesOn(target); len(roles) > 0 {
		return roles[0]
	}
	return NoRole
}

// ActsAs names what a principal acts as, for people who read about it later: the
// role of somebody, and of agents and of the product's own work what they are.
func (p *Principal) ActsAs(target Target) string {
	if p.Kind == KindNode || p.Kind == KindSystem {
		return string(p.Kind)
	}
	return string(p.RoleOn(target))
}

// roleIn returns the role that a principal holds in a tenant or a project, or
// NoRole.
func (p *Principal) roleIn(target Target) Role {
	if role, ok := p.Tenants[target.Org]; ok {
		return role
	}
	if !target.Project.IsZero() {
		if pr, ok := p.Projects[target.Project]; ok && pr.Org == target.Org {
			return pr.Role
		}
		return NoRole
	}
	return p.roleInAnyProject(target.Org)
}

// Members of a project may see its tenant with the rights of a viewer: a
// project role never reaches beyond its project.
func (p *Principal) roleInAnyProject(org id.Org) Role {
	if org.IsZero() {
		return NoRole
	}
	for _, pr := range p.Projects {
		if pr.Org == org {
			return ProjectViewer
		}
	}
	return NoRole
}

// InScope reports whether the scopes of the token include a permission.
func (p *Principal) InScope(want Permission) bool {
	return len(p.Scopes) == 0 || slices.Contains(p.Scopes, want)
}

// SeesAll reports whether a list that needs a permission shows the principal
// what belongs to every tenant.
func (p *Principal) SeesAll(want Permission) bool { return p.Decide(want, Target{}) == Allowed }

// Orgs lists the tenants a principal has any role in.
func (p *Principal) Orgs() []id.Org {
	seen := map[id.Org]bool{}
	for org := range p.Tenants {
		seen[org] = true
	}
	for _, pr := range p.Projects {
		seen[pr.Org] = true
	}
	return slices.Collect(maps.Keys(seen))
}

// OrgsWith lists the tenants on which a principal holds a permission. Lists are
// limited to these for callers that do not see everything.
func (p *Principal) OrgsWith(want Permission) []id.Org {
	return slices.DeleteFunc(p.Orgs(), func(org id.Org) bool { return p.Decide(want, Target{Org: org}) != Allowed })
}

// System returns the principal of the product's own background work.
func System(name string) *Principal {
	return &Principal{Kind: KindSystem, ID: "system:" + name, Name: name}
}

// Node returns the principal of the agent of a node.
func Node(node id.Node) *Principal {
	return &Principal{Kind: KindNode, ID: "node:" + node.String(), Name: "node " + node.String()}
}

// Anonymous returns the principal of a request without valid credentials.
func Anonymous() *Principal {
	return &Principal{Kind: KindAnonymous, ID: "anonymous", Name: "anonymous"}
}

type contextKey struct{}

// With puts a principal into a context.
func With(ctx context.Context, p *Principal) context.Context {
	return context.WithValue(ctx, contextKey{}, p)
}

// From returns the principal of a context, or the anonymous one if there is
// none.
func From(ctx context.Context) *Principal {
	if p, ok := ctx.Value(contextKey{}).(*Principal); ok {
		return p
	}
	return Anonymous()
}
