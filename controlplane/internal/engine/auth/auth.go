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
	KindSystem         Kind = "system"
	KindAnonymous      Kind = "anonymous"
)

// Role is a named set of permissions, held on the platform, a tenant or a project.
type Role string

// The roles. The first two are held on the platform.
const (
	PlatformAdmin Role = "platform_admin"
	Auditor       Role = "auditor"
	TenantAdmin   Role = "tenant_admin"
	ProjectAdmin  Role = "project_admin"
	ProjectMember Role = "project_member"
	ProjectViewer Role = "project_viewer"
	NoRole        Role = "none"
)

// Roles lists every role that can be granted.
var Roles = []Role{PlatformAdmin, Auditor, TenantAdmin, ProjectAdmin, ProjectMember, ProjectViewer}

// Principal is the sender of a request, with all its roles.
type Principal struct {
	Kind     Kind
	ID       string
	Name     string
	Platform Role // PlatformAdmin, Auditor or empty
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

// Decide says whether a principal may do something to a target. Whatever is not
// granted is refused.
func (p *Principal) Decide(want Permission, target Target) Decision {
	role := p.RoleOn(target)
	switch {
	case role == NoRole && target != Target{}:
		return Hidden
	case !grants[role][want], !p.InScope(want):
		return Denied
	}
	return Allowed
}

// DecideAnywhere decides about operations that limit their own answer to what
// the caller may see: it is enough to hold the permission on any target.
func (p *Principal) DecideAnywhere(want Permission) Decision {
	if !p.InScope(want) {
		return Denied
	}
	if grants[p.RoleOn(Target{})][want] {
		return Allowed
	}
	for _, role := range p.Tenants {
		if grants[role][want] {
			return Allowed
		}
	}
	for _, pr := range p.Projects {
		if grants[pr.Role][want] {
			return Allowed
		}
	}
	return Denied
}

// RoleOn returns the strongest role that a principal holds on a target, or
// NoRole.
func (p *Principal) RoleOn(target Target) Role {
	if p.Kind == KindSystem {
		return PlatformAdmin
	}
	if p.Platform != "" {
		return p.Platform
	}
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

// SeesEverything reports whether lists show the principal all tenants.
func (p *Principal) SeesEverything() bool { return p.Kind == KindSystem || p.Platform != "" }

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
