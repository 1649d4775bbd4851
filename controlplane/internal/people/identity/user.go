package identity

import (
	"net/mail"
	"slices"
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
)

// User is a person. An invited person is known by e-mail address only; the
// first sign-in links them to an account at the identity provider.
type User struct {
	ID                   id.User
	Email, Name          string
	Issuer, Subject      string    // empty until the first sign-in
	PlatformRole         auth.Role // PlatformAdmin, Operator, Auditor or NoRole
	Disabled             bool
	Version              int64
	CreatedAt, UpdatedAt time.Time
}

// Linked reports whether the person has signed in through an identity provider.
func (u User) Linked() bool { return u.Subject != "" }

// administers reports whether the user is an enabled administrator of the
// platform.
func (u User) administers() bool { return u.PlatformRole == auth.PlatformAdmin && !u.Disabled }

func (u User) displayName() string {
	if u.Name != "" {
		return u.Name
	}
	return u.Email
}

// NewUser invites a person.
type NewUser struct {
	Email, Name  string
	PlatformRole auth.Role
}

func (n NewUser) check() error {
	fields := emailProblems(n.Email)
	if n.Name != "" {
		fields = append(fields, nameProblems(n.Name)...)
	}
	return rejected(append(fields, platformRoleProblems(n.PlatformRole)...))
}

func emailProblems(email string) []fault.Field {
	if a, err := mail.ParseAddress(email); err != nil || a.Address != email || len(email) > 254 {
		return []fault.Field{{Path: "body.email", Message: "must be a plain e-mail address"}}
	}
	return nil
}

// UserChange describes a change. Nil fields stay as they are.
type UserChange struct {
	Name         *string
	PlatformRole *auth.Role
	Disabled     *bool
}

func (c UserChange) check() error {
	var fields []fault.Field
	if c.Name != nil {
		fields = append(fields, nameProblems(*c.Name)...)
	}
	if c.PlatformRole != nil {
		fields = append(fields, platformRoleProblems(*c.PlatformRole)...)
	}
	return rejected(fields)
}

func (c UserChange) applied(u User) User {
	if c.Name != nil {
		u.Name = *c.Name
	}
	if c.PlatformRole != nil {
		u.PlatformRole = *c.PlatformRole
	}
	if c.Disabled != nil {
		u.Disabled = *c.Disabled
	}
	return u
}

func platformRoleProblems(role auth.Role) []fault.Field {
	switch role {
	case auth.PlatformAdmin, auth.Operator, auth.Auditor, auth.NoRole:
		return nil
	default:
		return []fault.Field{{Path: "body.platform_role", Message: "must be platform_admin, operator, auditor or none"}}
	}
}

// Member is a person with a role in a tenant or a project.
type Member struct {
	User        id.User
	Email, Name string
	Role        auth.Role
	CreatedAt   time.Time
}

func checkTenantRole(role auth.Role) error {
	if role == auth.TenantAdmin {
		return nil
	}
	return rejected([]fault.Field{{Path: "body.role", Message: "must be tenant_admin"}})
}

func checkProjectRole(role auth.Role) error {
	switch role {
	case auth.ProjectAdmin, auth.ProjectMember, auth.ProjectViewer:
		return nil
	default:
		return rejected([]fault.Field{{
			Path:    "body.role",
			Message: "must be project_admin, project_member or project_viewer",
		}})
	}
}

// checkGrant refuses to give a role that the giver does not hold, or that the
// scopes of the giver's token leave out. If the role is for a token with
// scopes, the second rule covers only the permissions in these scopes.
func checkGrant(giver *auth.Principal, target auth.Target, given auth.Role, scopes ...auth.Permission) error {
	own := giver.RoleOn(target)
	for _, p := range auth.Permissions() {
		switch {
		case !auth.Grants(given, p):
		case !auth.Grants(own, p):
			return fault.New(fault.Forbidden, "role_above_own", "%s includes %s, which your role %s does not", given, p, own).
				WithRemedy("give a lesser role, or ask somebody who holds more")
		case !giver.InScope(p) && (len(scopes) == 0 || slices.Contains(scopes, p)):
			return fault.New(fault.Forbidden, "scope_above_own", "%s includes %s, which the scopes of your token do not", given,
				p).
				WithRemedy("give a lesser role, or use a token whose scopes include all that the role does, or one without scopes")
		}
	}
	return nil
}
