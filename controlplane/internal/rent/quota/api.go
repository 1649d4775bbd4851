package quota

import (
	"context"
	"net/http"
	"time"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
)

const (
	tag         = "Quotas"
	pathTenant  = "/api/v1/tenants/{org_id}/quotas"
	pathProject = "/api/v1/projects/{project_id}/quotas"
)

// View is a quota as the API shows it.
type View struct {
	QuotaID   id.Quota    `json:"quota_id" doc:"Id of the quota."`
	OrgID     id.Org      `json:"org_id" doc:"Id of the tenant."`
	ProjectID *id.Project `json:"project_id,omitempty" doc:"Id of the project whose quota it is. Left out: it is the tenant's, over all its projects."`
	SKU       string      `json:"sku,omitempty" doc:"The SKU that it is about. Left out: whatever the SKU." example:"h100.80g.8gpu"`
	GPUs      *int32      `json:"gpus,omitempty" doc:"How many GPUs may be held. Left out: this quota does not limit them."`
	Nodes     *int32      `json:"nodes,omitempty" doc:"How many nodes may be held. Left out: this quota does not limit them."`
	UsedGPUs  int32       `json:"used_gpus" doc:"How many GPUs are held that count against it, until their nodes are proven clean."`
	UsedNodes int32       `json:"used_nodes" doc:"How many nodes are held that count against it."`
	Version   int64       `json:"version" doc:"Grows with every change."`
	UpdatedAt time.Time   `json:"updated_at"`
	UpdatedBy string      `json:"updated_by" doc:"Id of who set it last."`
}

func show(q Quota) View {
	v := View{
		QuotaID: q.ID, OrgID: q.Org, SKU: q.SKU, GPUs: q.GPUs, Nodes: q.Nodes, UsedGPUs: q.Used.GPUs,
		UsedNodes: q.Used.Nodes, Version: q.Version,
		UpdatedAt: q.UpdatedAt.UTC(), UpdatedBy: q.UpdatedBy,
	}
	if !q.Project.IsZero() {
		v.ProjectID = &q.Project
	}
	return v
}

func position(v View) any { return v.QuotaID }

// LimitsBody is what may be held. It needs at least one of the two.
type LimitsBody struct {
	GPUs  *int32 `json:"gpus,omitempty" minimum:"0" maximum:"1000000" doc:"How many GPUs; left out, they are not limited."`
	Nodes *int32 `json:"nodes,omitempty" minimum:"0" maximum:"1000000" doc:"How many nodes; left out, they are not limited."`
}

// OfSKU says which SKU a quota is about. It is exported because the framework
// reads embedded parameters only from exported types.
type OfSKU struct {
	SKU string `query:"sku" maxLength:"63" doc:"The SKU that the quota is about. Left out: whatever the SKU."`
}

// TenantPath names a tenant in the path.
type TenantPath struct {
	OrgID id.Org `path:"org_id" doc:"Id of the tenant."`
}

// ProjectPath names a project in the path.
type ProjectPath struct {
	ProjectID id.Project `path:"project_id" doc:"Id of the project."`
}

// Register adds the operations of the package to an API.
func (s *Service) Register(api *httpapi.API) {
	s.registerTenant(api)
	s.registerProject(api)
}

func (s *Service) registerTenant(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "list-tenant-quotas", Method: http.MethodGet, Path: pathTenant, Tag: tag,
		Summary: "List the quotas of a tenant and of its projects",
		Description: "Whoever holds no role on the tenant itself sees the tenant's and those of the projects in which they " +
			"have a role. Where there is no quota, there is no limit.",
		Access: httpapi.Tenant(auth.QuotaRead),
	}, func(ctx context.Context, in *struct {
		TenantPath
		httpapi.Page
	},
	) (*httpapi.Listed[View], error) {
		page, err := httpapi.SliceOf[id.Quota](in.Page)
		if err != nil {
			return nil, err
		}
		rows, err := s.OfTenant(ctx, in.OrgID, page)
		return httpapi.ListOf(in.Page, rows, err, show, position)
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "put-tenant-quota", Method: http.MethodPut, Path: pathTenant, Tag: tag,
		Summary:     "Set what a tenant may hold",
		Description: "Replaces the tenant's quota of the SKU. What is held already stays, also above it.",
		Access:      httpapi.Tenant(auth.TenantQuotaManage),
	}, func(ctx context.Context, in *struct {
		TenantPath
		OfSKU
		Body LimitsBody
	},
	) (*httpapi.Plain[View], error) {
		q, err := s.Set(ctx, Owner{Org: in.OrgID}, in.SKU, Limits(in.Body))
		return &httpapi.Plain[View]{Body: show(q)}, err
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "remove-tenant-quota", Method: http.MethodDelete, Path: pathTenant, Tag: tag,
		Summary: "Lift a limit of a tenant", Access: httpapi.Tenant(auth.TenantQuotaManage),
	}, func(ctx context.Context, in *struct {
		TenantPath
		OfSKU
	},
	) (*httpapi.Nothing, error) {
		return nil, s.Remove(ctx, Owner{Org: in.OrgID}, in.SKU)
	})
}

func (s *Service) registerProject(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "list-project-quotas", Method: http.MethodGet, Path: pathProject, Tag: tag,
		Summary: "List the quotas that a project is held to", Description: "Its own, and those of its tenant.",
		Access: httpapi.Project(auth.QuotaRead),
	}, func(ctx context.Context, in *struct {
		ProjectPath
		httpapi.Page
	},
	) (*httpapi.Listed[View], error) {
		page, err := httpapi.SliceOf[id.Quota](in.Page)
		if err != nil {
			return nil, err
		}
		rows, err := s.OfProject(ctx, in.ProjectID, page)
		return httpapi.ListOf(in.Page, rows, err, show, position)
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "put-project-quota", Method: http.MethodPut, Path: pathProject, Tag: tag,
		Summary:     "Set what a project may hold",
		Description: "Replaces the project's quota of the SKU. It cannot be above the tenant's own.",
		Access:      httpapi.Project(auth.QuotaManage),
	}, func(ctx context.Context, in *struct {
		ProjectPath
		OfSKU
		Body LimitsBody
	},
	) (*httpapi.Plain[View], error) {
		org, err := s.orgOf(ctx, in.ProjectID)
		if err != nil {
			return nil, err
		}
		q, err := s.Set(ctx, Owner{Org: org, Project: in.ProjectID}, in.SKU, Limits(in.Body))
		return &httpapi.Plain[View]{Body: show(q)}, err
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "remove-project-quota", Method: http.MethodDelete, Path: pathProject, Tag: tag,
		Summary: "Lift a limit of a project", Access: httpapi.Project(auth.QuotaManage),
	}, func(ctx context.Context, in *struct {
		ProjectPath
		OfSKU
	},
	) (*httpapi.Nothing, error) {
		org, err := s.orgOf(ctx, in.ProjectID)
		if err != nil {
			return nil, err
		}
		return nil, s.Remove(ctx, Owner{Org: org, Project: in.ProjectID}, in.SKU)
	})
}
