package rentalsettings

import (
	"context"
	"net/http"
	"time"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
)

const (
	tag         = "Rental settings"
	pathTenant  = "/api/v1/tenants/{org_id}/rental-settings"
	pathProject = "/api/v1/projects/{project_id}/rental-settings"
)

// View is how a tenant or a project rents, as the API shows it.
type View struct {
	OrgID         id.Org      `json:"org_id" doc:"Id of the tenant."`
	ProjectID     *id.Project `json:"project_id,omitempty" doc:"Id of the project. Left out: they are the tenant's."`
	DefaultExpiry *int64      `json:"default_expiry_seconds,omitempty" doc:"As set here; 0: never. Left out: not set here."`
	MaxExpiry     *int64      `json:"max_expiry_seconds,omitempty" doc:"As set here. Left out: not set here."`
	RootAccess    *bool       `json:"root_access,omitempty" doc:"As set here. Left out: not set here."`
	InForce       RulesView   `json:"in_force" doc:"What counts, with what others have settled."`
	Version       int64       `json:"version" doc:"Grows with every change; 0: nothing was ever set here."`
	UpdatedAt     *time.Time  `json:"updated_at,omitempty"`
	UpdatedBy     string      `json:"updated_by,omitempty" doc:"Id of who set them last."`
}

// RulesView is what is in force, and who settled it.
type RulesView struct {
	DefaultExpiry     int64  `json:"default_expiry_seconds" doc:"How long an allocation lasts whose request names no end; 0: it never ends by itself."`
	DefaultExpiryFrom Source `json:"default_expiry_from" enum:"platform,tenant,project" doc:"Who settled it."`
	MaxExpiry         int64  `json:"max_expiry_seconds" doc:"How long it may last at most, counted from its placement or its last extension; 0: also for ever."`
	MaxExpiryFrom     Source `json:"max_expiry_from" enum:"platform,tenant,project"`
	RootAccess        bool   `json:"root_access" doc:"Whether root access may be asked for, of SKUs that have it."`
	RootAccessFrom    Source `json:"root_access_from" enum:"platform,tenant,project"`
}

func show(s Settings, r Rules, err error) (*httpapi.Versioned[View], error) {
	if err != nil {
		return nil, err
	}
	v := View{
		OrgID: s.Org, DefaultExpiry: seconds(s.DefaultExpiry), MaxExpiry: seconds(s.MaxExpiry), RootAccess: s.RootAccess,
		Version: s.Version, UpdatedBy: s.UpdatedBy,
		InForce: RulesView{
			DefaultExpiry: int64(r.DefaultExpiry.Seconds()), DefaultExpiryFrom: r.DefaultExpiryFrom,
			MaxExpiry: int64(r.MaxExpiry.Seconds()), MaxExpiryFrom: r.MaxExpiryFrom,
			RootAccess: r.RootAccess, RootAccessFrom: r.RootAccessFrom,
		},
	}
	if !s.Project.IsZero() {
		v.ProjectID = &s.Project
	}
	if s.Version > 0 {
		v.UpdatedAt = new(s.UpdatedAt.UTC())
	}
	return httpapi.AtVersion(s.Version, v), nil
}

// ValuesBody is what an owner settles. What is left out is left to the tenant, or to
// the platform.
type ValuesBody struct {
	DefaultExpiry *int64 `json:"default_expiry_seconds,omitempty" minimum:"0" maximum:"31622400" example:"86400" doc:"How long an allocation lasts whose request names no end; 0: it never ends by itself. Left out: not set here."`
	MaxExpiry     *int64 `json:"max_expiry_seconds,omitempty" minimum:"300" maximum:"31622400" example:"2592000" doc:"How long it may last at most; each has an end then. Left out: not set here."`
	RootAccess    *bool  `json:"root_access,omitempty" doc:"Whether root access may be asked for. Left out: not set here."`
}

func (b ValuesBody) values() Values {
	return Values{
		DefaultExpiry: duration(b.DefaultExpiry), MaxExpiry: duration(b.MaxExpiry), RootAccess: b.RootAccess,
	}
}

// TenantPath names a tenant in the path. It is exported because the framework reads
// embedded parameters only from exported types.
type TenantPath struct {
	OrgID id.Org `path:"org_id" doc:"Id of the tenant."`
}

// ProjectPath names a project in the path.
type ProjectPath struct {
	ProjectID id.Project `path:"project_id" doc:"Id of the project."`
}

// Register adds the operations of the package to an API.
func (s *Service) Register(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "get-tenant-rental-settings", Method: http.MethodGet, Path: pathTenant, Tag: tag,
		Summary: "Read how a tenant rents", Access: httpapi.Tenant(auth.TenantRead),
	}, func(ctx context.Context, in *TenantPath) (*httpapi.Versioned[View], error) {
		return show(s.OfTenant(ctx, in.OrgID))
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "put-tenant-rental-settings", Method: http.MethodPut, Path: pathTenant, Tag: tag,
		Summary: "Set how a tenant rents",
		Description: "Replaces all of them. They bound those of its projects. What is rented already stays as it is; " +
			"extending it is held to them.",
		Access: httpapi.Tenant(auth.TenantUpdate),
	}, func(ctx context.Context, in *struct {
		TenantPath
		httpapi.IfMatch
		Body ValuesBody
	},
	) (*httpapi.Versioned[View], error) {
		version, err := in.Version()
		if err != nil {
			return nil, err
		}
		return show(s.Set(ctx, Owner{Org: in.OrgID}, version, in.Body.values()))
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "get-project-rental-settings", Method: http.MethodGet, Path: pathProject, Tag: tag,
		Summary: "Read how a project rents, and who settled what", Access: httpapi.Project(auth.ProjectRead),
	}, func(ctx context.Context, in *ProjectPath) (*httpapi.Versioned[View], error) {
		return show(s.OfProject(ctx, in.ProjectID))
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "put-project-rental-settings", Method: http.MethodPut, Path: pathProject, Tag: tag,
		Summary:     "Set how a project rents",
		Description: "Replaces all of them. They cannot go beyond the tenant's.",
		Access:      httpapi.Project(auth.ProjectUpdate),
	}, func(ctx context.Context, in *struct {
		ProjectPath
		httpapi.IfMatch
		Body ValuesBody
	},
	) (*httpapi.Versioned[View], error) {
		version, err := in.Version()
		if err != nil {
			return nil, err
		}
		org, err := s.orgOf(ctx, in.ProjectID)
		if err != nil {
			return nil, err
		}
		return show(s.Set(ctx, Owner{Org: org, Project: in.ProjectID}, version, in.Body.values()))
	})
}
