package policy

import (
	"context"
	"net/http"

	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
)

func (s *Service) registerTenant(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "list-tenant-operation-policies", Method: http.MethodGet, Path: pathTenant, Tag: tag,
		Summary: "List what a tenant has settled about operations", Access: httpapi.Tenant(auth.OperationPolicyRead),
	}, func(ctx context.Context, in *struct {
		TenantPath
		httpapi.Page
	},
	) (*httpapi.Listed[LineView], error) {
		return s.list(ctx, Owner{Org: in.OrgID}, in.Page)
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "get-tenant-operation-policy", Method: http.MethodGet, Path: pathTenant + ofType, Tag: tag,
		Summary: "Read what a tenant allows of an operation, and what counts there",
		Access:  httpapi.Tenant(auth.OperationPolicyRead),
	}, func(ctx context.Context, in *struct {
		TenantPath
		TypePath
	},
	) (*httpapi.Versioned[View], error) {
		return show(s.Of(ctx, Owner{Org: in.OrgID}, in.Type))
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "put-tenant-operation-policy", Method: http.MethodPut, Path: pathTenant + ofType, Tag: tag,
		Summary:     "Set what a tenant allows of an operation",
		Description: "Replaces all of it. It narrows what the platform allows; what would widen it has no effect.",
		Access:      httpapi.Tenant(auth.OperationPolicyManage),
	}, func(ctx context.Context, in *struct {
		TenantPath
		TypePath
		httpapi.IfMatch
		Body Body
	},
	) (*httpapi.Versioned[View], error) {
		version, err := in.Version()
		if err != nil {
			return nil, err
		}
		return show(s.Set(ctx, Owner{Org: in.OrgID}, in.Type, version, in.Body.values(), in.Body.Reason))
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "delete-tenant-operation-policy", Method: http.MethodDelete, Path: pathTenant + ofType, Tag: tag,
		Summary: "Take back what a tenant has settled", Access: httpapi.Tenant(auth.OperationPolicyManage),
	}, func(ctx context.Context, in *struct {
		TenantPath
		TypePath
	},
	) (*httpapi.Nothing, error) {
		return nil, s.Remove(ctx, Owner{Org: in.OrgID}, in.Type)
	})
}

func (s *Service) registerProject(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "list-project-operation-policies", Method: http.MethodGet, Path: pathProject, Tag: tag,
		Summary: "List what is settled about operations for a project", Access: httpapi.Project(auth.OperationPolicyRead),
	}, func(ctx context.Context, in *struct {
		ProjectPath
		httpapi.Page
	},
	) (*httpapi.Listed[LineView], error) {
		of, err := s.ownerOf(ctx, in.ProjectID)
		if err != nil {
			return nil, err
		}
		return s.list(ctx, of, in.Page)
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "get-project-operation-policy", Method: http.MethodGet, Path: pathProject + ofType, Tag: tag,
		Summary: "Read what counts for an operation in a project, and which level decided it",
		Access:  httpapi.Project(auth.OperationPolicyRead),
	}, func(ctx context.Context, in *struct {
		ProjectPath
		TypePath
	},
	) (*httpapi.Versioned[View], error) {
		of, err := s.ownerOf(ctx, in.ProjectID)
		if err != nil {
			return nil, err
		}
		return show(s.Of(ctx, of, in.Type))
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "put-project-operation-policy", Method: http.MethodPut, Path: pathProject + ofType, Tag: tag,
		Summary:     "Set what is allowed of an operation in a project",
		Description: "Replaces all of it. Administrators of the tenant do so; it narrows what the tenant allows.",
		Access:      httpapi.Project(auth.OperationPolicyManage),
	}, func(ctx context.Context, in *struct {
		ProjectPath
		TypePath
		httpapi.IfMatch
		Body Body
	},
	) (*httpapi.Versioned[View], error) {
		version, err := in.Version()
		if err != nil {
			return nil, err
		}
		of, err := s.ownerOf(ctx, in.ProjectID)
		if err != nil {
			return nil, err
		}
		return show(s.Set(ctx, of, in.Type, version, in.Body.values(), in.Body.Reason))
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "delete-project-operation-policy", Method: http.MethodDelete, Path: pathProject + ofType, Tag: tag,
		Summary: "Take back what is settled for a project", Access: httpapi.Project(auth.OperationPolicyManage),
	}, func(ctx context.Context, in *struct {
		ProjectPath
		TypePath
	},
	) (*httpapi.Nothing, error) {
		of, err := s.ownerOf(ctx, in.ProjectID)
		if err != nil {
			return nil, err
		}
		return nil, s.Remove(ctx, of, in.Type)
	})
}
