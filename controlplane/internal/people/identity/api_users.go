package identity

import (
	"context"
	"net/http"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
)

// NewUserBody invites a person.
type NewUserBody struct {
	Email        string    `json:"email" format:"email" maxLength:"254" doc:"The address they sign in with." example:"ada@example.com"`
	Name         string    `json:"name,omitempty" maxLength:"200" doc:"Their name; taken from the first sign-in when left out."`
	PlatformRole auth.Role `json:"platform_role,omitempty" enum:"platform_admin,operator,auditor,none" default:"none" doc:"Role on the platform itself."`
}

// UserChangeBody is the change of a person. Fields that are left out stay as
// they are.
type UserChangeBody struct {
	Name         *string    `json:"name,omitempty" minLength:"1" maxLength:"200" doc:"Their name."`
	PlatformRole *auth.Role `json:"platform_role,omitempty" enum:"platform_admin,operator,auditor,none" doc:"Role on the platform itself."`
	Disabled     *bool      `json:"disabled,omitempty" doc:"Disabling revokes all of their tokens at once."`
}

// UserPath names a person in the path. It is exported because the framework
// reads embedded parameters only from exported types.
type UserPath struct {
	UserID id.User `path:"user_id" doc:"Id of the person."`
}

func (s *Service) registerUsers(api *httpapi.API) {
	const all, tag = "/api/v1/admin/users", "Users"
	httpapi.Register(api, httpapi.Operation{
		ID: "list-users", Method: http.MethodGet, Path: all, Tag: tag,
		Summary: "List people", Access: httpapi.Platform(auth.UserRead),
	}, func(ctx context.Context, in *struct {
		httpapi.Page
		Email string `query:"email" maxLength:"254" doc:"Only the person with this address."`
	},
	) (*httpapi.Listed[UserView], error) {
		page, err := httpapi.SliceOf[id.User](in.Page)
		if err != nil {
			return nil, err
		}
		rows, err := s.Users(ctx, in.Email, page)
		return httpapi.ListOf(in.Page, rows, err, showUser, func(v UserView) any { return v.UserID })
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "create-user", Method: http.MethodPost, Path: all, Tag: tag,
		Summary:     "Invite a person",
		Description: "They become able to act by signing in with the same verified e-mail address.",
		Access:      httpapi.Platform(auth.UserManage), Status: http.StatusCreated,
	}, func(ctx context.Context, in *struct{ Body NewUserBody }) (*httpapi.Versioned[UserView], error) {
		u, err := s.CreateUser(ctx, NewUser(in.Body))
		return httpapi.AtVersion(u.Version, showUser(u)), err
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "get-user", Method: http.MethodGet, Path: all + "/{user_id}", Tag: tag,
		Summary: "Read a person", Access: httpapi.Platform(auth.UserRead),
	}, func(ctx context.Context, in *UserPath) (*httpapi.Versioned[UserView], error) {
		u, err := s.User(ctx, in.UserID)
		return httpapi.AtVersion(u.Version, showUser(u)), err
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "update-user", Method: http.MethodPatch, Path: all + "/{user_id}", Tag: tag,
		Summary: "Change, disable or enable a person",
		Description: "Disabling revokes all of their tokens at once. The last enabled platform_admin can be neither " +
			"demoted nor disabled.",
		Access: httpapi.Platform(auth.UserManage),
	}, func(ctx context.Context, in *struct {
		UserPath
		httpapi.IfMatch
		Body UserChangeBody
	},
	) (*httpapi.Versioned[UserView], error) {
		version, err := in.Version()
		if err != nil {
			return nil, err
		}
		u, err := s.UpdateUser(ctx, in.UserID, version, UserChange(in.Body))
		return httpapi.AtVersion(u.Version, showUser(u)), err
	})
}
