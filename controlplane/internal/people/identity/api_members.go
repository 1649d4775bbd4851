package identity

import (
	"context"
	"net/http"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
)

// TenantRoleBody is the role a person is given on a tenant.
type TenantRoleBody struct {
	Role auth.Role `json:"role" enum:"tenant_admin" doc:"What they may do in the tenant and all its projects."`
}

// ProjectRoleBody is the role a person is given in a project.
type ProjectRoleBody struct {
	Role auth.Role `json:"role" enum:"project_admin,project_member,project_viewer" doc:"What they may do in the project."`
}

// TenantMemberPath names a member of a tenant in the path. It is exported
// because the framework reads embedded parameters only from exported types.
type TenantMemberPath struct {
	TenantPath
	UserID id.User `path:"user_id" doc:"Id of the person."`
}

// ProjectMemberPath names a member of a project in the path. It is exported
// because the framework reads embedded parameters only from exported types.
type ProjectMemberPath struct {
	ProjectPath
	UserID id.User `path:"user_id" doc:"Id of the person."`
}

func memberPosition(v MemberView) any { return v.UserID }

func (s *Service) registerMembers(api *httpapi.API) {
	s.registerTenantMembers(api)
	s.registerProjectMembers(api)
}

func (s *Service) registerTenantMembers(api *httpapi.API) {
	const all = "/api/v1/tenants/{org_id}/members"
	httpapi.Register(api, httpapi.Operation{
		ID: "list-tenant-members", Method: http.MethodGet, Path: all, Tag: tagMembers,
		Summary: "List who holds a role on a tenant", Access: httpapi.Tenant(auth.MemberRead),
	}, func(ctx context.Context, in *struct {
		TenantPath
		httpapi.Page
	},
	) (*httpapi.Listed[MemberView], error) {
		page, err := httpapi.SliceOf[id.User](in.Page)
		if err != nil {
			return nil, err
		}
		rows, err := s.TenantMembers(ctx, in.OrgID, page)
		return httpapi.ListOf(in.Page, rows, err, showMember, memberPosition)
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "put-tenant-member", Method: http.MethodPut, Path: all + "/{user_id}", Tag: tagMembers,
		Summary: "Give a person a role on a tenant", Description: "The person must be known already.",
		Access: httpapi.Tenant(auth.MemberManage),
	}, func(ctx context.Context, in *struct {
		TenantMemberPath
		Body TenantRoleBody
	},
	) (*httpapi.Plain[MemberView], error) {
		m, err := s.PutTenantMember(ctx, in.OrgID, in.UserID, in.Body.Role)
		return &httpapi.Plain[MemberView]{Body: showMember(m)}, err
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "remove-tenant-member", Method: http.MethodDelete, Path: all + "/{user_id}", Tag: tagMembers,
		Summary:     "Take a person's role on a tenant away",
		Description: "The last tenant_admin can be removed by the platform only.",
		Access:      httpapi.Tenant(auth.MemberManage),
	}, func(ctx context.Context, in *TenantMemberPath) (*httpapi.Nothing, error) {
		return nil, s.RemoveTenantMember(ctx, in.OrgID, in.UserID)
	})
}

func (s *Service) registerProjectMembers(api *httpapi.API) {
	const all = "/api/v1/projects/{project_id}/members"
	httpapi.Register(api, httpapi.Operation{
		ID: "list-project-members", Method: http.MethodGet, Path: all, Tag: tagMembers,
		Summary: "List who holds a role in a project", Access: httpapi.Project(auth.MemberRead),
	}, func(ctx context.Context, in *struct {
		ProjectPath
		httpapi.Page
	},
	) (*httpapi.Listed[MemberView], error) {
		page, err := httpapi.SliceOf[id.User](in.Page)
		if err != nil {
			return nil, err
		}
		rows, err := s.ProjectMembers(ctx, in.ProjectID, page)
		return httpapi.ListOf(in.Page, rows, err, showMember, memberPosition)
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "put-project-member", Method: http.MethodPut, Path: all + "/{user_id}", Tag: tagMembers,
		Summary:     "Give a person a role in a project",
		Description: "The person must be known already. Nobody gives a role above their own.",
		Access:      httpapi.Project(auth.MemberManage),
	}, func(ctx context.Context, in *struct {
		ProjectMemberPath
		Body ProjectRoleBody
	},
	) (*httpapi.Plain[MemberView], error) {
		m, err := s.PutProjectMember(ctx, in.ProjectID, in.UserID, in.Body.Role)
		return &httpapi.Plain[MemberView]{Body: showMember(m)}, err
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "remove-project-member", Method: http.MethodDelete, Path: all + "/{user_id}", Tag: tagMembers,
		Summary: "Take a person's role in a project away", Access: httpapi.Project(auth.MemberManage),
	}, func(ctx context.Context, in *ProjectMemberPath) (*httpapi.Nothing, error) {
		return nil, s.RemoveProjectMember(ctx, in.ProjectID, in.UserID)
	})
}
