package identity

import (
	"time"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
)

// describeAccess puts the table of permissions into the contract: what there is, and
// what each role includes. The console shows by it what somebody may do.
func describeAccess(api *httpapi.API) {
	var permissions []string
	grants := map[auth.Role][]auth.Permission{}
	for _, p := range auth.Permissions() {
		permissions = append(permissions, string(p))
		for _, role := range auth.Roles {
			if auth.Grants(role, p) {
				grants[role] = append(grants[role], p)
			}
		}
	}
	api.Schema("Permission", permissions)
	api.Extend("x-gpuaas-grants", grants)
}

// Register adds the operations of the package to an API.
func (s *Service) Register(api *httpapi.API) {
	describeAccess(api)
	s.registerTenants(api)
	s.registerSwitches(api)
	s.registerProjects(api)
	s.registerMembers(api)
	s.registerUsers(api)
	s.registerServiceAccounts(api)
	s.registerTokens(api)
	s.registerOwn(api)
	s.registerSignIn(api)
	s.registerSessions(api)
}

// TenantView is a tenant as the API shows it.
type TenantView struct {
	OrgID     id.Org    `json:"org_id" doc:"Id of the tenant."`
	Slug      string    `json:"slug" doc:"Its name for machines; never changes." example:"acme"`
	Name      string    `json:"name" doc:"Its name for people." example:"Acme Inc."`
	Version   int64     `json:"version" doc:"Grows with every change."`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`

	DisabledAt      *time.Time `json:"disabled_at,omitempty" doc:"Since when nothing new is made for it; absent: it is not disabled."`
	DisabledBecause string     `json:"disabled_because,omitempty" doc:"Why, as the operator told it."`
}

func showTenant(t Tenant) TenantView {
	v := TenantView{
		OrgID: t.ID, Slug: t.Slug, Name: t.Name, Version: t.Version, CreatedAt: t.CreatedAt.UTC(),
		UpdatedAt: t.UpdatedAt.UTC(), DisabledBecause: t.DisabledBecause,
	}
	if t.DisabledAt != nil {
		at := t.DisabledAt.UTC()
		v.DisabledAt = &at
	}
	return v
}

// ProjectView is a project as the API shows it.
type ProjectView struct {
	ProjectID id.Project `json:"project_id" doc:"Id of the project."`
	OrgID     id.Org     `json:"org_id" doc:"Id of the tenant it belongs to."`
	Slug      string     `json:"slug" doc:"Its name for machines within the tenant; never changes." example:"default"`
	Name      string     `json:"name" doc:"Its name for people." example:"Default"`
	Version   int64      `json:"version" doc:"Grows with every change."`
	CreatedAt time.Time  `json:"created_at"`
	UpdatedAt time.Time  `json:"updated_at"`
}

func showProject(p Project) ProjectView {
	return ProjectView{
		ProjectID: p.ID, OrgID: p.Org, Slug: p.Slug, Name: p.Name, Version: p.Version,
		CreatedAt: p.CreatedAt.UTC(), UpdatedAt: p.UpdatedAt.UTC(),
	}
}

// MemberView is a person with a role in a tenant or project, as the API shows them.
type MemberView struct {
	UserID    id.User   `json:"user_id" doc:"Id of the person."`
	Email     string    `json:"email"`
	Name      string    `json:"name"`
	Role      auth.Role `json:"role" enum:"tenant_admin,project_admin,project_member,project_viewer" doc:"What they may do here."`
	CreatedAt time.Time `json:"created_at" doc:"When they were first given a role here."`
}

func showMember(m Member) MemberView {
	return MemberView{UserID: m.User, Email: m.Email, Name: m.Name, Role: m.Role, CreatedAt: m.CreatedAt.UTC()}
}

// UserView is a person as administrators of the platform see them.
type UserView struct {
	UserID       id.User   `json:"user_id" doc:"Id of the person."`
	Email        string    `json:"email"`
	Name         string    `json:"name"`
	PlatformRole auth.Role `json:"platform_role" enum:"platform_admin,operator,auditor,none" doc:"Role on the platform itself."`
	Disabled     bool      `json:"disabled" doc:"A disabled person can neither sign in nor use a token."`
	Linked       bool      `json:"linked" doc:"Whether they have signed in through the identity provider."`
	Version      int64     `json:"version" doc:"Grows with every change."`
	CreatedAt    time.Time `json:"created_at"`
	UpdatedAt    time.Time `json:"updated_at"`
}

func showUser(u User) UserView {
	return UserView{
		UserID: u.ID, Email: u.Email, Name: u.Name, PlatformRole: u.PlatformRole, Disabled: u.Disabled, Linked: u.Linked(),
		Version: u.Version, CreatedAt: u.CreatedAt.UTC(), UpdatedAt: u.UpdatedAt.UTC(),
	}
}

// ServiceAccountView is a service account as the API shows it.
type ServiceAccountView struct {
	ServiceAccountID id.ServiceAccount    `json:"service_account_id" doc:"Id of the service account."`
	ProjectID        id.Project           `json:"project_id" doc:"The project it acts in."`
	Name             string               `json:"name" example:"ci"`
	Role             auth.Role            `json:"role" enum:"project_admin,project_member,project_viewer" doc:"What it may do in the project."`
	Status           ServiceAccountStatus `json:"status" enum:"active,disabled" doc:"Whether its tokens are accepted."`
	Version          int64                `json:"version" doc:"Grows with every change."`
	CreatedAt        time.Time            `json:"created_at"`
	UpdatedAt        time.Time            `json:"updated_at"`
}

func showServiceAccount(a ServiceAccount) ServiceAccountView {
	return ServiceAccountView{
		ServiceAccountID: a.ID, ProjectID: a.Project, Name: a.Name, Role: a.Role, Status: a.Status, Version: a.Version,
		CreatedAt: a.CreatedAt.UTC(), UpdatedAt: a.UpdatedAt.UTC(),
	}
}
