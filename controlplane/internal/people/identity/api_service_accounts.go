package identity

import (
	"context"
	"net/http"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
)

const (
	tagServiceAccounts  = "Service accounts"
	pathServiceAccounts = "/api/v1/projects/{project_id}/service-accounts"
)

// NewServiceAccountBody describes a service account to add.
type NewServiceAccountBody struct {
	Name string    `json:"name" minLength:"1" maxLength:"200" doc:"Its name, once in the project." example:"ci"`
	Role auth.Role `json:"role" enum:"project_admin,project_member,project_viewer" doc:"What it may do; not above your own role."`
}

// ServiceAccountChangeBody is the change of a service account. Fields that are
// left out stay as they are.
type ServiceAccountChangeBody struct {
	Role   *auth.Role            `json:"role,omitempty" enum:"project_admin,project_member,project_viewer" doc:"What it may do; not above your own role."`
	Status *ServiceAccountStatus `json:"status,omitempty" enum:"active,disabled" doc:"The tokens of a disabled account are refused until it is active again."`
}

// ServiceAccountPath names a service account in the path. It is exported
// because the framework reads embedded parameters only from exported types.
type ServiceAccountPath struct {
	ProjectPath
	ServiceAccountID id.ServiceAccount `path:"service_account_id" doc:"Id of the service account."`
}

func (s *Service) registerServiceAccounts(api *httpapi.API) {
	const one = pathServiceAccounts + "/{service_account_id}"
	httpapi.Register(api, httpapi.Operation{
		ID: "create-service-account", Method: http.MethodPost, Path: pathServiceAccounts, Tag: tagServiceAccounts,
		Summary: "Create a service account", Access: httpapi.Project(auth.ServiceAccountManage), Status: http.StatusCreated,
	}, func(ctx context.Context, in *struct {
		ProjectPath
		Body NewServiceAccountBody
	},
	) (*httpapi.Versioned[ServiceAccountView], error) {
		a, err := s.CreateServiceAccount(ctx, in.ProjectID, NewServiceAccount(in.Body))
		return httpapi.AtVersion(a.Version, showServiceAccount(a)), err
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "list-service-accounts", Method: http.MethodGet, Path: pathServiceAccounts, Tag: tagServiceAccounts,
		Summary: "List the service accounts of a project", Access: httpapi.Project(auth.ServiceAccountRead),
	}, func(ctx context.Context, in *struct {
		ProjectPath
		httpapi.Page
	},
	) (*httpapi.Listed[ServiceAccountView], error) {
		page, err := httpapi.SliceOf[id.ServiceAccount](in.Page)
		if err != nil {
			return nil, err
		}
		rows, err := s.ServiceAccounts(ctx, in.ProjectID, page)
		return httpapi.ListOf(in.Page, rows, err, showServiceAccount,
			func(v ServiceAccountView) any { return v.ServiceAccountID })
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "get-service-account", Method: http.MethodGet, Path: one, Tag: tagServiceAccounts,
		Summary: "Read a service account", Access: httpapi.Project(auth.ServiceAccountRead),
	}, func(ctx context.Context, in *ServiceAccountPath) (*httpapi.Versioned[ServiceAccountView], error) {
		a, err := s.ServiceAccount(ctx, in.ProjectID, in.ServiceAccountID)
		return httpapi.AtVersion(a.Version, showServiceAccount(a)), err
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "update-service-account", Method: http.MethodPatch, Path: one, Tag: tagServiceAccounts,
		Summary: "Change the role of a service account, disable or enable it",
		Access:  httpapi.Project(auth.ServiceAccountManage),
	}, func(ctx context.Context, in *struct {
		ServiceAccountPath
		httpapi.IfMatch
		Body ServiceAccountChangeBody
	},
	) (*httpapi.Versioned[ServiceAccountView], error) {
		version, err := in.Version()
		if err != nil {
			return nil, err
		}
		a, err := s.UpdateServiceAccount(ctx, in.ProjectID, in.ServiceAccountID, version, ServiceAccountChange(in.Body))
		return httpapi.AtVersion(a.Version, showServiceAccount(a)), err
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "delete-service-account", Method: http.MethodDelete, Path: one, Tag: tagServiceAccounts,
		Summary: "Delete a service account", Description: "Revokes its tokens; its name can be used again.",
		Access: httpapi.Project(auth.ServiceAccountManage),
	}, func(ctx context.Context, in *ServiceAccountPath) (*httpapi.Nothing, error) {
		return nil, s.DeleteServiceAccount(ctx, in.ProjectID, in.ServiceAccountID)
	})
}
