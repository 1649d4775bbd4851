package artifact

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
)

const (
	sourcesGlobal = "/api/v1/admin/artifact-sources"
	sourcesTenant = "/api/v1/tenants/{org_id}/artifact-sources"
	oneSource     = "/{source_id}"
	aboutSource   = "Where artifacts are that not everybody may read, or that sends elsewhere, and with which login. The login " +
		"reads only what its owner registered (and, if it is shared, what levels below registered). Nodes never get it: while " +
		"a run fetches an artifact, its node gets a token or an address that reads this artifact alone, for an hour at most."
	aboutRotate = "Replaces login and secret. What nodes were given before ends by itself, within an hour."
	aboutDelete = "The secret is deleted with it. What is registered there stays, and can be fetched only if everybody may."
)

// Schema implements huma.SchemaProvider.
func (SourceKind) Schema(huma.Registry) *huma.Schema { return httpapi.EnumOf(sourceKinds) }

// SourceView is a source as the API shows it, without its secret.
type SourceView struct {
	SourceID  id.ArtifactSource `json:"source_id" doc:"Id of the source."`
	Scope     string            `json:"scope" enum:"global,tenant" doc:"Whose it is."`
	Name      string            `json:"name"`
	Kind      SourceKind        `json:"kind"`
	Reach     string            `json:"reach" doc:"How repositories or addresses begin that the login is for."`
	Login     string            `json:"login,omitempty"`
	Region    string            `json:"region,omitempty"`
	Shared    bool              `json:"shared" doc:"It also reads what levels below its owner registered."`
	HasSecret bool              `json:"has_secret"`
	Version   int64             `json:"version" doc:"Grows with every change."`
	CreatedAt time.Time         `json:"created_at"`
	CreatedBy string            `json:"created_by"`
	UpdatedAt time.Time         `json:"updated_at"`
	UpdatedBy string            `json:"updated_by"`
}

func showSource(s Source) SourceView {
	return SourceView{
		SourceID: s.ID, Scope: Owner{Org: s.Org}.Scope(), Name: s.Name, Kind: s.Kind, Reach: s.Reach, Login: s.Login,
		Region: s.Region, Shared: s.Shared, HasSecret: s.HasSecret, Version: s.Version, CreatedAt: s.CreatedAt.UTC(),
		CreatedBy: s.CreatedBy, UpdatedAt: s.UpdatedAt.UTC(), UpdatedBy: s.UpdatedBy,
	}
}

func answerSource(s Source, err error) (*httpapi.Plain[SourceView], error) {
	if err != nil {
		return nil, err
	}
	return &httpapi.Plain[SourceView]{Body: showSource(s)}, nil
}

// LoginBody is what a source lets somebody in with.
type LoginBody struct {
	Login  string `json:"login,omitempty" maxLength:"200" doc:"registry: a user. s3 and gcs: the id of an access key. huggingface: none." example:"puller"`
	Secret string `json:"secret,omitempty" maxLength:"16384" doc:"registry: its password or token. s3 and gcs: the key. huggingface: a token. It is kept in the secrets engine, and never shown."`
}

// SourceBody is a source to add.
type SourceBody struct {
	Name   string     `json:"name" minLength:"1" maxLength:"100" example:"models"`
	Kind   SourceKind `json:"kind"`
	Reach  string     `json:"reach" minLength:"1" maxLength:"1000" doc:"registry: how its repositories begin, as registry.example/team. Others: how addresses of files begin." example:"registry.example/team"`
	Region string     `json:"region,omitempty" maxLength:"64" doc:"Of a store of the kind s3; gcs: auto, if left out." example:"eu-central-1"`
	Shared bool       `json:"shared,omitempty" doc:"Let it read also what levels below its owner registered: projects, or tenants."`
	LoginBody
}

// SourcePath names a source in the path.
type SourcePath struct {
	SourceID id.ArtifactSource `path:"source_id" doc:"Id of the source."`
}

func (s *Service) listedSources(ctx context.Context, org id.Org, p httpapi.Page) (*httpapi.Listed[SourceView], error) {
	page, err := httpapi.SliceOf[id.ArtifactSource](p)
	if err != nil {
		return nil, err
	}
	rows, err := s.ListSources(ctx, org, page)
	return httpapi.ListOf(p, rows, err, showSource, func(v SourceView) any { return v.SourceID })
}

func (s *Service) added(ctx context.Context, org id.Org, b SourceBody) (*httpapi.Plain[SourceView], error) {
	return answerSource(s.AddSource(ctx, org, SourceWish{
		Name: b.Name, Kind: b.Kind, Reach: b.Reach, Login: b.Login, Secret: redact.New(b.Secret), Region: b.Region,
		Shared: b.Shared,
	}))
}

func (s *Service) registerGlobalSources(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "add-global-artifact-source", Method: http.MethodPost, Path: sourcesGlobal, Tag: tag, Status: http.StatusCreated,
		Summary: "Add a source of artifacts of the platform, with its login", Description: aboutSource,
		Access: httpapi.Platform(auth.ArtifactSourceManage),
	}, func(ctx context.Context, in *struct {
		Body SourceBody
	},
	) (*httpapi.Plain[SourceView], error) {
		return s.added(ctx, id.Org{}, in.Body)
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "list-global-artifact-sources", Method: http.MethodGet, Path: sourcesGlobal, Tag: tag,
		Summary: "List the sources of artifacts of the platform", Access: httpapi.Platform(auth.ArtifactRead),
	}, func(ctx context.Context, in *struct {
		httpapi.Page
	},
	) (*httpapi.Listed[SourceView], error) {
		return s.listedSources(ctx, id.Org{}, in.Page)
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "rotate-global-artifact-source", Method: http.MethodPut, Path: sourcesGlobal + oneSource + "/login", Tag: tag,
		Summary: "Replace the login of a source of artifacts of the platform", Description: aboutRotate,
		Access: httpapi.Platform(auth.ArtifactSourceManage),
	}, func(ctx context.Context, in *struct {
		SourcePath
		Body LoginBody
	},
	) (*httpapi.Plain[SourceView], error) {
		return answerSource(s.RotateSource(ctx, id.Org{}, in.SourceID, in.Body.Login, redact.New(in.Body.Secret)))
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "delete-global-artifact-source", Method: http.MethodDelete, Path: sourcesGlobal + oneSource, Tag: tag,
		Summary: "Delete a source of artifacts of the platform", Description: aboutDelete,
		Access: httpapi.Platform(auth.ArtifactSourceManage), Status: http.StatusNoContent,
	}, func(ctx context.Context, in *struct {
		SourcePath
	},
	) (*struct{}, error) {
		return nil, s.DeleteSource(ctx, id.Org{}, in.SourceID)
	})
}

func (s *Service) registerTenantSources(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "add-tenant-artifact-source", Method: http.MethodPost, Path: sourcesTenant, Tag: tag, Status: http.StatusCreated,
		Summary: "Add a source of artifacts of a tenant, with its login", Description: aboutSource,
		Access: httpapi.Tenant(auth.ArtifactSourceManage),
	}, func(ctx context.Context, in *struct {
		TenantPath
		Body SourceBody
	},
	) (*httpapi.Plain[SourceView], error) {
		by, err := s.tenant(ctx, in.OrgID)
		if err != nil {
			return nil, err
		}
		return s.added(ctx, by.Org, in.Body)
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "list-tenant-artifact-sources", Method: http.MethodGet, Path: sourcesTenant, Tag: tag,
		Summary: "List the sources of artifacts of a tenant", Access: httpapi.Tenant(auth.ArtifactRead),
	}, func(ctx context.Context, in *struct {
		TenantPath
		httpapi.Page
	},
	) (*httpapi.Listed[SourceView], error) {
		by, err := s.tenant(ctx, in.OrgID)
		if err != nil {
			return nil, err
		}
		return s.listedSources(ctx, by.Org, in.Page)
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "rotate-tenant-artifact-source", Method: http.MethodPut, Path: sourcesTenant + oneSource + "/login", Tag: tag,
		Summary: "Replace the login of a source of artifacts of a tenant", Description: aboutRotate,
		Access: httpapi.Tenant(auth.ArtifactSourceManage),
	}, func(ctx context.Context, in *struct {
		TenantPath
		SourcePath
		Body LoginBody
	},
	) (*httpapi.Plain[SourceView], error) {
		by, err := s.tenant(ctx, in.OrgID)
		if err != nil {
			return nil, err
		}
		return answerSource(s.RotateSource(ctx, by.Org, in.SourceID, in.Body.Login, redact.New(in.Body.Secret)))
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "delete-tenant-artifact-source", Method: http.MethodDelete, Path: sourcesTenant + oneSource, Tag: tag,
		Summary: "Delete a source of artifacts of a tenant", Description: aboutDelete,
		Access: httpapi.Tenant(auth.ArtifactSourceManage), Status: http.StatusNoContent,
	}, func(ctx context.Context, in *struct {
		TenantPath
		SourcePath
	},
	) (*struct{}, error) {
		by, err := s.tenant(ctx, in.OrgID)
		if err != nil {
			return nil, err
		}
		return nil, s.DeleteSource(ctx, by.Org, in.SourceID)
	})
}
