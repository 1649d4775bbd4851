package identity

import (
	"fmt"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/people/identity/internal/identitydb"
)

func newID[of ~[16]byte]() of { return id.New[of]() }

func tenantFrom(r identitydb.Tenant) Tenant {
	return Tenant{
		ID: r.ID, Slug: r.Slug, Name: r.Name, Version: r.Version, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
		DisabledAt: r.DisabledAt, DisabledBecause: r.DisabledReason,
	}
}

func projectFrom(r identitydb.Project) Project {
	return Project{
		ID: r.ID, Org: r.OrgID, Slug: r.Slug, Name: r.Name, Version: r.Version, CreatedAt: r.CreatedAt,
		UpdatedAt: r.UpdatedAt,
	}
}

func userFrom(r identitydb.User) User {
	return User{
		ID: r.ID, Email: r.Email, Name: r.Name, Issuer: orEmpty(r.OidcIssuer), Subject: orEmpty(r.OidcSubject),
		PlatformRole: platformRoleFrom(r.PlatformRole), Disabled: r.Disabled, Version: r.Version,
		CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
	}
}

func platformRoleFrom(column *string) auth.Role {
	if column == nil {
		return auth.NoRole
	}
	return auth.Role(*column)
}

func platformRoleColumn(role auth.Role) *string {
	if role == auth.NoRole || role == "" {
		return nil
	}
	s := string(role)
	return &s
}

func memberFrom(r identitydb.TenantMemberRow) Member {
	return Member{User: r.UserID, Email: r.Email, Name: r.Name, Role: auth.Role(r.Role), CreatedAt: r.CreatedAt}
}

func serviceAccountFrom(r identitydb.ServiceAccount) ServiceAccount {
	return ServiceAccount{
		ID: r.ID, Project: r.ProjectID, Name: r.Name, Role: auth.Role(r.Role), Status: ServiceAccountStatus(r.Status),
		Version: r.Version, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
	}
}

func tokenFrom(r identitydb.ApiToken) Token {
	return Token{
		ID: r.ID, Kind: TokenKind(r.Kind), User: r.UserID, ServiceAccount: r.ServiceAccountID, Name: r.Name,
		MadeFrom: r.MadeFrom, Scopes: permissionsFrom(r.Scopes), ExpiresAt: r.ExpiresAt, LastUsedAt: r.LastUsedAt,
		CreatedAt: r.CreatedAt,
	}
}

func permissionsFrom(column []string) []auth.Permission {
	out := make([]auth.Permission, len(column))
	for i, s := range column {
		out[i] = auth.Permission(s)
	}
	return out
}

func permissionsColumn(scopes []auth.Permission) []string {
	out := make([]string, len(scopes))
	for i, s := range scopes {
		out[i] = string(s)
	}
	return out
}

func idsColumn[noun any](ids []id.Of[noun]) []string {
	out := make([]string, len(ids))
	for i, v := range ids {
		out[i] = v.String()
	}
	return out
}

// converted turns rows into domain types.
func converted[row, noun any](rows []row, err error, from func(row) noun) ([]noun, error) {
	if err != nil {
		return nil, fmt.Errorf("list identities: %w", err)
	}
	out := make([]noun, len(rows))
	for i, r := range rows {
		out[i] = from(r)
	}
	return out, nil
}

func orEmpty(column *string) string {
	if column == nil {
		return ""
	}
	return *column
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
