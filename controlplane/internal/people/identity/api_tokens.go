package identity

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
)

const (
	tagTokens = "Tokens"
	tagMe     = "Me"
)

// NewTokenBody describes the token that the caller wants.
type NewTokenBody struct {
	Name      string            `json:"name" minLength:"1" maxLength:"200" doc:"What it is for." example:"nightly import"`
	ExpiresIn int64             `json:"expires_in,omitempty" minimum:"60" maximum:"31622400" default:"2592000" doc:"How many seconds it works, at most: it ends with what it is made with; 30 days unless said otherwise."`
	Scopes    []auth.Permission `json:"scopes,omitempty" nullable:"false" maxItems:"100" doc:"Permissions it is narrowed to; none means all that its owner may do." example:"[\"project:read\"]"`
}

func (b NewTokenBody) asked() NewToken {
	return NewToken{Name: b.Name, Life: time.Duration(b.ExpiresIn) * time.Second, Scopes: b.Scopes}
}

// TokenView is a token as the API shows it: never the token itself.
type TokenView struct {
	TokenID    id.Token          `json:"token_id" doc:"Id of the token."`
	Kind       TokenKind         `json:"kind" enum:"api,session" doc:"Whether it was made on request or by signing in."`
	Name       string            `json:"name"`
	Scopes     []auth.Permission `json:"scopes" nullable:"false" doc:"Permissions it is narrowed to; none means all that its owner may do."`
	ExpiresAt  time.Time         `json:"expires_at"`
	LastUsedAt *time.Time        `json:"last_used_at,omitempty" doc:"When it was last used, to the minute; absent when never."`
	MadeFrom   *id.Token         `json:"made_from,omitempty" doc:"The token, or session, that it was made with, and ends with; absent: none, or not known."`
	CreatedAt  time.Time         `json:"created_at"`
}

// NewTokenView is a new token. Its text is shown only here.
type NewTokenView struct {
	TokenView
	Token string `json:"token" doc:"The token. It is shown this once and cannot be shown again."`
}

func showToken(t Token) TokenView {
	v := TokenView{
		TokenID: t.ID, Kind: t.Kind, Name: t.Name, Scopes: t.Scopes, ExpiresAt: t.ExpiresAt.UTC(),
		CreatedAt: t.CreatedAt.UTC(),
	}
	if t.LastUsedAt != nil {
		used := t.LastUsedAt.UTC()
		v.LastUsedAt = &used
	}
	if !t.MadeFrom.IsZero() {
		v.MadeFrom = &t.MadeFrom
	}
	return v
}

func showNewToken(t Token, plain redact.Secret, err error) (*httpapi.Plain[NewTokenView], error) {
	if err != nil {
		return nil, err
	}
	return &httpapi.Plain[NewTokenView]{Body: NewTokenView{TokenView: showToken(t), Token: plain.Reveal()}}, nil
}

func tokenPosition(v TokenView) any { return v.TokenID }

func (s *Service) registerTokens(api *httpapi.API) {
	const all = pathServiceAccounts + "/{service_account_id}/tokens"
	httpapi.Register(api, httpapi.Operation{
		ID: "create-service-account-token", Method: http.MethodPost, Path: all, Tag: tagTokens,
		Summary: "Make a token for a service account",
		Description: "The token is shown once, in this answer. It ends with the token or session that the request comes " +
			"with, at the latest.",
		Access: httpapi.Project(auth.ServiceAccountManage), Status: http.StatusCreated, SecretResponse: true,
	}, func(ctx context.Context, in *struct {
		ServiceAccountPath
		Body NewTokenBody
	},
	) (*httpapi.Plain[NewTokenView], error) {
		return showNewToken(s.CreateServiceAccountToken(ctx, in.ProjectID, in.ServiceAccountID, in.Body.asked()))
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "list-service-account-tokens", Method: http.MethodGet, Path: all, Tag: tagTokens,
		Summary: "List the tokens of a service account that still work", Access: httpapi.Project(auth.ServiceAccountRead),
	}, func(ctx context.Context, in *struct {
		ServiceAccountPath
		httpapi.Page
	},
	) (*httpapi.Listed[TokenView], error) {
		page, err := httpapi.SliceOf[id.Token](in.Page)
		if err != nil {
			return nil, err
		}
		rows, err := s.ServiceAccountTokens(ctx, in.ProjectID, in.ServiceAccountID, page)
		return httpapi.ListOf(in.Page, rows, err, showToken, tokenPosition)
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "revoke-service-account-token", Method: http.MethodDelete, Path: all + "/{token_id}", Tag: tagTokens,
		Summary: "Revoke a token of a service account", Access: httpapi.Project(auth.ServiceAccountManage),
	}, func(ctx context.Context, in *struct {
		ServiceAccountPath
		TokenID id.Token `path:"token_id" doc:"Id of the token."`
	},
	) (*httpapi.Nothing, error) {
		return nil, s.RevokeServiceAccountToken(ctx, in.ProjectID, in.ServiceAccountID, in.TokenID)
	})
}

// MeView is the caller as the control plane sees them.
type MeView struct {
	Kind         auth.Kind         `json:"kind" enum:"user,service_account" doc:"A person or a program."`
	ID           string            `json:"id" format:"uuid" doc:"user_id or service_account_id."`
	Name         string            `json:"name"`
	PlatformRole auth.Role         `json:"platform_role" enum:"platform_admin,operator,auditor,none" doc:"Role on the platform itself."`
	Tenants      []TenantRoleView  `json:"tenants" nullable:"false" doc:"Roles on tenants."`
	Projects     []ProjectRoleView `json:"projects" nullable:"false" doc:"Roles in projects."`
	Scopes       []auth.Permission `json:"scopes" nullable:"false" doc:"Permissions this token is narrowed to; none means all of the roles."`
	TokenID      id.Token          `json:"token_id" doc:"Id of the token that the request came with."`
	ExpiresAt    time.Time         `json:"expires_at" doc:"When that token ends."`

	PlatformPermissions []auth.Permission `json:"platform_permissions" nullable:"false" doc:"What you may do on the platform itself, with this token; sorted."`
	Permissions         []auth.Permission `json:"permissions" nullable:"false" doc:"What you may do on anything at all, with this token; sorted."`
}

// TenantRoleView is a role on a tenant.
type TenantRoleView struct {
	OrgID id.Org    `json:"org_id"`
	Role  auth.Role `json:"role" enum:"tenant_admin"`
}

// ProjectRoleView is a role in a project.
type ProjectRoleView struct {
	ProjectID id.Project `json:"project_id"`
	OrgID     id.Org     `json:"org_id"`
	Role      auth.Role  `json:"role" enum:"project_admin,project_member,project_viewer"`
}

func showMe(p *auth.Principal) MeView {
	me := MeView{
		Kind: p.Kind, ID: p.ID, Name: p.Name, PlatformRole: p.Platform, Scopes: p.Scopes, TokenID: p.Token,
		ExpiresAt: p.Expires.UTC(),
		Tenants:   []TenantRoleView{}, Projects: []ProjectRoleView{},
		PlatformPermissions: []auth.Permission{}, Permissions: []auth.Permission{},
	}
	for _, permission := range auth.Permissions() {
		if p.Decide(permission, auth.Target{}) == auth.Allowed {
			me.PlatformPermissions = append(me.PlatformPermissions, permission)
		}
		if p.DecideAnywhere(permission) == auth.Allowed {
			me.Permissions = append(me.Permissions, permission)
		}
	}
	if me.PlatformRole == "" {
		me.PlatformRole = auth.NoRole
	}
	for org, role := range p.Tenants {
		me.Tenants = append(me.Tenants, TenantRoleView{OrgID: org, Role: role})
	}
	for project, role := range p.Projects {
		me.Projects = append(me.Projects, ProjectRoleView{ProjectID: project, OrgID: role.Org, Role: role.Role})
	}
	slices.SortFunc(me.Tenants, func(a, b TenantRoleView) int {
		return strings.Compare(a.OrgID.String(),
			b.OrgID.String())
	})
	slices.SortFunc(me.Projects, func(a, b ProjectRoleView) int {
		return strings.Compare(a.ProjectID.String(), b.ProjectID.String())
	})
	return me
}

func (s *Service) registerOwn(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "get-me", Method: http.MethodGet, Path: "/api/v1/me", Tag: tagMe,
		Summary: "Read who you are and what you may do", Access: httpapi.Authenticated(),
	}, func(ctx context.Context, _ *struct{}) (*httpapi.Plain[MeView], error) {
		return &httpapi.Plain[MeView]{Body: showMe(auth.From(ctx))}, nil
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "list-my-tokens", Method: http.MethodGet, Path: "/api/v1/me/tokens", Tag: tagMe,
		Summary: "List your tokens that still work", Access: httpapi.Authenticated(),
	}, func(ctx context.Context, in *struct{ httpapi.Page }) (*httpapi.Listed[TokenView], error) {
		page, err := httpapi.SliceOf[id.Token](in.Page)
		if err != nil {
			return nil, err
		}
		rows, err := s.OwnTokens(ctx, page)
		return httpapi.ListOf(in.Page, rows, err, showToken, tokenPosition)
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "create-my-token", Method: http.MethodPost, Path: "/api/v1/me/tokens", Tag: tagMe,
		Summary: "Make a token for yourself",
		Description: "The token is shown once, in this answer. It ends with the token or session that the request comes " +
			"with, at the latest. " +
			"Only people make tokens for themselves.",
		Access: httpapi.Authenticated(), Status: http.StatusCreated, SecretResponse: true,
	}, func(ctx context.Context, in *struct{ Body NewTokenBody }) (*httpapi.Plain[NewTokenView], error) {
		return showNewToken(s.CreateOwnToken(ctx, in.Body.asked()))
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "revoke-my-token", Method: http.MethodDelete, Path: "/api/v1/me/tokens/{token_id}", Tag: tagMe,
		Summary: "Revoke one of your tokens", Access: httpapi.Authenticated(),
	}, func(ctx context.Context, in *struct {
		TokenID id.Token `path:"token_id" doc:"Id of the token."`
	},
	) (*httpapi.Nothing, error) {
		return nil, s.RevokeOwnToken(ctx, in.TokenID)
	})
}
