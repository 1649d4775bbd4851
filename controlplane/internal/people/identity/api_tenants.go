package identity

import (
	"context"
	"net/http"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
)

const (
	tagTenants  = "Tenants"
	tagProjects = "Projects"
	tagMembers  = "Members"
)

// NamingBody names a new tenant or project.
type NamingBody struct {
	Slug string `json:"slug" minLength:"1" maxLength:"63" pattern:"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$" doc:"Name for machines; never changes." example:"acme"`
	Name string `json:"name" minLength:"1" maxLength:"200" doc:"Name for people." example:"Acme Inc."`
}

// RenameBody is the change of a name.
type RenameBody struct {
	Name string `json:"name" minLength:"1" maxLength:"200" doc:"The new name for people."`
}

// TenantPath names a tenant in the path. It is exported because the framework
// reads embedded parameters only from exported types.
type TenantPath struct {
	OrgID id.Org `path:"org_id" doc:"Id of the tenant."`
}

// ProjectPath names a project in the path. It is exported because the framework
// reads embedded parameters only from exported types.
type ProjectPath struct {
	ProjectID id.Project `path:"project_id" doc:"Id of the project."`
}

func (s *Service) registerTenants(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "create-tenant", Method: http.MethodPost, Path: "/api/v1/admin/tenants", Tag: tagTenants,
		Summary: "Create a tenant", Description: "Also creates its project `default`.",
		Access: httpapi.Platform(auth.TenantCreate), Status: http.StatusCreated,
	}, func(ctx context.Context, in *struct{ Body NamingBody }) (*httpapi.Versioned[TenantView], error) {
		t, err := s.CreateTenant(ctx, Naming(in.Body))
		return httpapi.AtVersion(t.Version, showTenant(t)), err
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "list-tenants", Method: http.MethodGet, Path: "/api/v1/tenants", Tag: tagTenants,
		Summary: "List the tenants you have a role in", Description: "Roles on the platform see all tenants.",
		Access: httpapi.Anywhere(auth.TenantRead),
	}, func(ctx context.Context, in *struct{ httpapi.Page }) (*httpapi.Listed[TenantView], error) {
		page, err := httpapi.SliceOf[id.Org](in.Page)
		if err != nil {
			return nil, err
		}
		rows, err := s.Tenants(ctx, page)
		return httpapi.ListOf(in.Page, rows, err, showTenant, func(v TenantView) any { return v.OrgID })
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "get-tenant", Method: http.MethodGet, Path: "/api/v1/tenants/{org_id}", Tag: tagTenants,
		Summary: "Read a tenant", Access: httpapi.Tenant(auth.TenantRead),
	}, func(ctx context.Context, in *TenantPath) (*httpapi.Versioned[TenantView], error) {
		t, err := s.Tenant(ctx, in.OrgID)
		return httpapi.AtVersion(t.Version, showTenant(t)), err
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "update-tenant", Method: http.MethodPatch, Path: "/api/v1/tenants/{org_id}", Tag: tagTenants,
		Summary: "Rename a tenant", Access: httpapi.Tenant(auth.TenantUpdate),
	}, func(ctx context.Context, in *struct {
		TenantPath
		httpapi.IfMatch
		Body RenameBody
	},
	) (*httpapi.Versioned[TenantView], error) {
		version, err := in.Version()
		if err != nil {
			return nil, err
		}
		t, err := s.UpdateTenant(ctx, in.OrgID, version, in.Body.Name)
		return httpapi.AtVersion(t.Version, showTenant(t)), err
	})
}

// SwitchBody says why a tenant is disabled or enabled.
type SwitchBody struct {
	Reason string `json:"reason" minLength:"1" maxLength:"500" doc:"Why; the people of the tenant can read it." example:"no contract from June on"`
}

func (s *Service) registerSwitches(api *httpapi.API) {
	for _, op := range []struct {
		word, summary, note string
		do                  func(ctx context.Context, org id.Org, reason string) (Tenant, error)
	}{
		{
			"disable", "Let a tenant have nothing new", "Its people and service accounts can read everything and release what they " +
				"have. What they ask for anew is refused with tenant_disabled, and its requests that wait are not placed. What it " +
				"has stays until it is released or ends.", s.DisableTenant,
		},
		{"enable", "Let a tenant ask for something new again", "One that is not disabled stays so.", s.EnableTenant},
	} {
		httpapi.Register(api, httpapi.Operation{
			ID: op.word + "-tenant", Method: http.MethodPost, Path: "/api/v1/admin/tenants/{org_id}/" + op.word, Tag: tagTenants,
			Summary: op.summary, Description: op.note, Access: httpapi.Platform(auth.TenantCreate),
		}, func(ctx context.Context, in *struct {
			TenantPath
			Body SwitchBody
		},
		) (*httpapi.Versioned[TenantView], error) {
			t, err := op.do(ctx, in.OrgID, in.Body.Reason)
			return httpapi.AtVersion(t.Version, showTenant(t)), err
		})
	}
}

func (s *Service) registerProjects(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "create-project", Method: http.MethodPost, Path: "/api/v1/tenants/{org_id}/projects", Tag: tagProjects,
		Summary: "Create a project", Access: httpapi.Tenant(auth.ProjectCreate), Status: http.StatusCreated,
	}, func(ctx context.Context, in *struct {
		TenantPath
		Body NamingBody
	},
	) (*httpapi.Versioned[ProjectView], error) {
		p, err := s.CreateProject(ctx, in.OrgID, Naming(in.Body))
		return httpapi.AtVersion(p.Version, showProject(p)), err
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "list-projects", Method: http.MethodGet, Path: "/api/v1/tenants/{org_id}/projects", Tag: tagProjects,
		Summary:     "List the projects of a tenant",
		Description: "Whoever holds no role on the tenant itself sees the projects in which they have a role.",
		Access:      httpapi.Tenant(auth.ProjectRead),
	}, func(ctx context.Context, in *struct {
		TenantPath
		httpapi.Page
	},
	) (*httpapi.Listed[ProjectView], error) {
		page, err := httpapi.SliceOf[id.Project](in.Page)
		if err != nil {
			return nil, err
		}
		rows, err := s.Projects(ctx, in.OrgID, page)
		return httpapi.ListOf(in.Page, rows, err, showProject, func(v ProjectView) any { return v.ProjectID })
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "get-project", Method: http.MethodGet, Path: "/api/v1/projects/{project_id}", Tag: tagProjects,
		Summary: "Read a project", Access: httpapi.Project(auth.ProjectRead),
	}, func(ctx context.Context, in *ProjectPath) (*httpapi.Versioned[ProjectView], error) {
		p, err := s.Project(ctx, in.ProjectID)
		return httpapi.AtVersion(p.Version, showProject(p)), err
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "update-project", Method: http.MethodPatch, Path: "/api/v1/projects/{project_id}", Tag: tagProjects,
		Summary: "Rename a project", Access: httpapi.Project(auth.ProjectUpdate),
	}, func(ctx context.Context, in *struct {
		ProjectPath
		httpapi.IfMatch
		Body RenameBody
	},
	) (*httpapi.Versioned[ProjectView], error) {
		version, err := in.Version()
		if err != nil {
			return nil, err
		}
		p, err := s.UpdateProject(ctx, in.ProjectID, version, in.Body.Name)
		return httpapi.AtVersion(p.Version, showProject(p)), err
	})
}
