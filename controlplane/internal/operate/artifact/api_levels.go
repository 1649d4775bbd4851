package artifact

import (
	"context"
	"net/http"

	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
)

func (s *Service) registerGlobal(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "register-global-artifact", Method: http.MethodPost, Path: pathGlobal, Tag: tag,
		Summary:     "Register an artifact for the platform",
		Description: aboutRegister,
		Access:      httpapi.Platform(auth.ArtifactManage), Status: http.StatusCreated,
	}, func(ctx context.Context, in *struct {
		Body NewBody
	},
	) (*httpapi.Plain[View], error) {
		return answer(s.Register(ctx, Owner{}, Wish(in.Body)))
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "list-global-artifacts", Method: http.MethodGet, Path: pathGlobal, Tag: tag,
		Summary:     "List the artifacts of the platform",
		Description: aboutList,
		Access:      httpapi.Platform(auth.ArtifactRead),
	}, func(ctx context.Context, in *struct {
		Filters
	},
	) (*httpapi.Listed[View], error) {
		return s.list(ctx, Owner{}, in.Filters)
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "get-global-artifact", Method: http.MethodGet, Path: pathGlobal + one, Tag: tag,
		Summary: "Read an artifact of the platform",
		Access:  httpapi.Platform(auth.ArtifactRead),
	}, func(ctx context.Context, in *struct {
		Path
	},
	) (*httpapi.Plain[View], error) {
		return answer(s.Get(ctx, Owner{}, in.ArtifactID))
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "verify-global-artifact", Method: http.MethodPost, Path: pathGlobal + one + "/verify", Tag: tag,
		Summary:     "Look for a signature of an artifact of the platform again",
		Description: aboutVerify,
		Access:      httpapi.Platform(auth.ArtifactManage),
	}, func(ctx context.Context, in *struct {
		Path
	},
	) (*httpapi.Plain[View], error) {
		return answer(s.Verify(ctx, Owner{}, in.ArtifactID))
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "move-global-artifact", Method: http.MethodPost, Path: pathGlobal + one + "/move", Tag: tag,
		Summary:     "Deprecate, revoke or retire an artifact of the platform",
		Description: aboutMove,
		Access:      httpapi.Platform(auth.ArtifactManage),
	}, func(ctx context.Context, in *struct {
		Path
		Body MoveBody
	},
	) (*httpapi.Plain[View], error) {
		return answer(s.Move(ctx, Owner{}, in.ArtifactID, in.Body.Event, in.Body.Reason))
	})
}

func (s *Service) registerTenant(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "register-tenant-artifact", Method: http.MethodPost, Path: pathTenant, Tag: tag,
		Summary:     "Register an artifact for a tenant",
		Description: aboutRegister,
		Access:      httpapi.Tenant(auth.ArtifactManage), Status: http.StatusCreated,
	}, func(ctx context.Context, in *struct {
		TenantPath
		Body NewBody
	},
	) (*httpapi.Plain[View], error) {
		by, err := s.tenant(ctx, in.OrgID)
		if err != nil {
			return nil, err
		}
		return answer(s.Register(ctx, by, Wish(in.Body)))
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "list-tenant-artifacts", Method: http.MethodGet, Path: pathTenant, Tag: tag,
		Summary:     "List the artifacts that a tenant can have fetched",
		Description: aboutList,
		Access:      httpapi.Tenant(auth.ArtifactRead),
	}, func(ctx context.Context, in *struct {
		TenantPath
		Filters
	},
	) (*httpapi.Listed[View], error) {
		by, err := s.tenant(ctx, in.OrgID)
		if err != nil {
			return nil, err
		}
		return s.list(ctx, by, in.Filters)
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "get-tenant-artifact", Method: http.MethodGet, Path: pathTenant + one, Tag: tag,
		Summary: "Read an artifact that a tenant can have fetched",
		Access:  httpapi.Tenant(auth.ArtifactRead),
	}, func(ctx context.Context, in *struct {
		TenantPath
		Path
	},
	) (*httpapi.Plain[View], error) {
		by, err := s.tenant(ctx, in.OrgID)
		if err != nil {
			return nil, err
		}
		return answer(s.Get(ctx, by, in.ArtifactID))
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "verify-tenant-artifact", Method: http.MethodPost, Path: pathTenant + one + "/verify", Tag: tag,
		Summary:     "Look for a signature of an artifact of a tenant again",
		Description: aboutVerify,
		Access:      httpapi.Tenant(auth.ArtifactManage),
	}, func(ctx context.Context, in *struct {
		TenantPath
		Path
	},
	) (*httpapi.Plain[View], error) {
		by, err := s.tenant(ctx, in.OrgID)
		if err != nil {
			return nil, err
		}
		return answer(s.Verify(ctx, by, in.ArtifactID))
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "move-tenant-artifact", Method: http.MethodPost, Path: pathTenant + one + "/move", Tag: tag,
		Summary:     "Deprecate, revoke or retire an artifact of a tenant",
		Description: aboutMove,
		Access:      httpapi.Tenant(auth.ArtifactManage),
	}, func(ctx context.Context, in *struct {
		TenantPath
		Path
		Body MoveBody
	},
	) (*httpapi.Plain[View], error) {
		by, err := s.tenant(ctx, in.OrgID)
		if err != nil {
			return nil, err
		}
		return answer(s.Move(ctx, by, in.ArtifactID, in.Body.Event, in.Body.Reason))
	})
}

func (s *Service) registerProject(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "register-project-artifact", Method: http.MethodPost, Path: pathProject, Tag: tag,
		Summary:     "Register an artifact for a project",
		Description: aboutRegister,
		Access:      httpapi.Project(auth.ArtifactManage), Status: http.StatusCreated,
	}, func(ctx context.Context, in *struct {
		ProjectPath
		Body NewBody
	},
	) (*httpapi.Plain[View], error) {
		by, err := s.ownerOf(ctx, in.ProjectID)
		if err != nil {
			return nil, err
		}
		return answer(s.Register(ctx, by, Wish(in.Body)))
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "list-project-artifacts", Method: http.MethodGet, Path: pathProject, Tag: tag,
		Summary:     "List the artifacts that a project can have fetched",
		Description: aboutList,
		Access:      httpapi.Project(auth.ArtifactRead),
	}, func(ctx context.Context, in *struct {
		ProjectPath
		Filters
	},
	) (*httpapi.Listed[View], error) {
		by, err := s.ownerOf(ctx, in.ProjectID)
		if err != nil {
			return nil, err
		}
		return s.list(ctx, by, in.Filters)
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "get-project-artifact", Method: http.MethodGet, Path: pathProject + one, Tag: tag,
		Summary: "Read an artifact that a project can have fetched",
		Access:  httpapi.Project(auth.ArtifactRead),
	}, func(ctx context.Context, in *struct {
		ProjectPath
		Path
	},
	) (*httpapi.Plain[View], error) {
		by, err := s.ownerOf(ctx, in.ProjectID)
		if err != nil {
			return nil, err
		}
		return answer(s.Get(ctx, by, in.ArtifactID))
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "verify-project-artifact", Method: http.MethodPost, Path: pathProject + one + "/verify", Tag: tag,
		Summary:     "Look for a signature of an artifact of a project again",
		Description: aboutVerify,
		Access:      httpapi.Project(auth.ArtifactManage),
	}, func(ctx context.Context, in *struct {
		ProjectPath
		Path
	},
	) (*httpapi.Plain[View], error) {
		by, err := s.ownerOf(ctx, in.ProjectID)
		if err != nil {
			return nil, err
		}
		return answer(s.Verify(ctx, by, in.ArtifactID))
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "move-project-artifact", Method: http.MethodPost, Path: pathProject + one + "/move", Tag: tag,
		Summary:     "Deprecate, revoke or retire an artifact of a project",
		Description: aboutMove,
		Access:      httpapi.Project(auth.ArtifactManage),
	}, func(ctx context.Context, in *struct {
		ProjectPath
		Path
		Body MoveBody
	},
	) (*httpapi.Plain[View], error) {
		by, err := s.ownerOf(ctx, in.ProjectID)
		if err != nil {
			return nil, err
		}
		return answer(s.Move(ctx, by, in.ArtifactID, in.Body.Event, in.Body.Reason))
	})
}
