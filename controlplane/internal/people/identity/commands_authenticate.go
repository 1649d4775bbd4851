package identity

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/people/identity/internal/identitydb"
)

// touchEvery limits how often the use of a token costs a write.
const touchEvery = time.Minute

// Authenticate says whose token it is and what they may do. It caches nothing:
// a revoked token is refused at once, and so is every token that was made with
// it.
func (s *Service) Authenticate(ctx context.Context, token redact.Secret) (*auth.Principal, error) {
	if !wellFormed(token) {
		return nil, tokenInvalid()
	}
	return s.authenticate(ctx, digest(token))
}

// Reauthenticate is Authenticate for callers that kept only the id of the
// token.
func (s *Service) Reauthenticate(ctx context.Context, token id.Token) (*auth.Principal, error) {
	hash, err := s.reads.TokenHash(ctx, token)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, tokenInvalid()
	}
	if err != nil {
		return nil, fmt.Errorf("read token %s: %w", token, err)
	}
	return s.authenticate(ctx, hash)
}

func (s *Service) authenticate(ctx context.Context, hash []byte) (*auth.Principal, error) {
	now := s.now()
	row, err := s.reads.TokenOwner(ctx, identitydb.TokenOwnerParams{Hash: hash, Now: now})
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, tokenInvalid()
	}
	if err != nil {
		return nil, fmt.Errorf("read owner of token: %w", err)
	}
	if subtle.ConstantTimeCompare(row.Hash, hash) != 1 || row.RevokedAt != nil {
		return nil, tokenInvalid()
	}
	if !now.Before(row.ExpiresAt) {
		return nil, fault.New(fault.Unauthenticated, "token_expired", "the token has expired").
			WithRemedy("sign in again, or have a new token made")
	}
	if row.LineEnded {
		return nil, fault.New(fault.Unauthenticated, "token_parent_ended",
			"the token, or session, that this one was made with has ended").
			WithRemedy("sign in again, or have a new token made")
	}
	principal, err := principalOf(row)
	if err != nil {
		return nil, err
	}
	if row.LastUsedAt == nil || now.Sub(*row.LastUsedAt) >= touchEvery {
		s.touch(ctx, row.ID, now)
	}
	return principal, nil
}

// touch records that a token is in use. A failure is only logged.
func (s *Service) touch(ctx context.Context, token id.Token, now time.Time) {
	err := s.reads.TouchToken(ctx, identitydb.TouchTokenParams{ID: token, Now: now, Before: now.Add(-touchEvery)})
	if err != nil {
		s.logger.WarnContext(ctx, "could not note the use of a token", "token_id", token.String(), "error", err)
	}
}

func tokenInvalid() error {
	return fault.New(fault.Unauthenticated, "token_invalid", "the token is not valid").
		WithRemedy("sign in again, or have a new token made")
}

// StillMay says whether somebody who asked for something a while ago would be allowed
// to ask for it now, whatever became of the token.
func (s *Service) StillMay(ctx context.Context, tx pgx.Tx, who string, what auth.Permission, on auth.Target) (bool,
	error,
) {
	r, err := identitydb.New(tx).RolesOf(ctx, identitydb.RolesOfParams{Who: who, OrgID: on.Org, ProjectID: on.Project})
	if err != nil {
		return false, fmt.Errorf("read roles of %s: %w", who, err)
	}
	p := &auth.Principal{Kind: auth.KindUser, ID: who, Platform: auth.Role(r.Platform)}
	if r.Tenant != "" {
		p.Tenants = map[id.Org]auth.Role{on.Org: auth.Role(r.Tenant)}
	}
	if r.Project != "" {
		p.Projects = map[id.Project]auth.ProjectRole{on.Project: {Org: on.Org, Role: auth.Role(r.Project)}}
	}
	return p.Decide(what, on) == auth.Allowed, nil
}

func principalOf(r identitydb.TokenOwnerRow) (*auth.Principal, error) {
	p := &auth.Principal{Token: r.ID, Expires: r.ExpiresAt, Scopes: permissionsFrom(r.Scopes)}
	if r.UserID.IsZero() {
		if ServiceAccountStatus(orEmpty(r.AccountStatus)) != ServiceAccountActive {
			return nil, tokenInvalid()
		}
		p.Kind, p.ID, p.Name = auth.KindServiceAccount, r.ServiceAccountID.String(), orEmpty(r.AccountName)
		p.Projects = map[id.Project]auth.ProjectRole{r.ProjectID: {Org: r.OrgID, Role: auth.Role(orEmpty(r.AccountRole))}}
		return p, nil
	}
	if r.UserDisabled == nil || *r.UserDisabled {
		return nil, tokenInvalid()
	}
	p.Kind, p.ID = auth.KindUser, r.UserID.String()
	p.Name = User{Name: orEmpty(r.UserName), Email: orEmpty(r.UserEmail)}.displayName()
	p.Platform = auth.Role(orEmpty(r.PlatformRole))
	return p, addMemberships(p, r)
}

func addMemberships(p *auth.Principal, r identitydb.TokenOwnerRow) error {
	var tenants []struct {
		Org  id.Org
		Role auth.Role
	}
	var projects []struct {
		Project id.Project
		Org     id.Org
		Role    auth.Role
	}
	if err := json.Unmarshal(r.TenantRoles, &tenants); err != nil {
		return fmt.Errorf("read tenant roles: %w", err)
	}
	if err := json.Unmarshal(r.ProjectRoles, &projects); err != nil {
		return fmt.Errorf("read project roles: %w", err)
	}
	p.Tenants = make(map[id.Org]auth.Role, len(tenants))
	for _, m := range tenants {
		p.Tenants[m.Org] = m.Role
	}
	p.Projects = make(map[id.Project]auth.ProjectRole, len(projects))
	for _, m := range projects {
		p.Projects[m.Project] = auth.ProjectRole{Org: m.Org, Role: m.Role}
	}
	return nil
}
