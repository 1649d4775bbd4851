package identity

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/audit"
	"gpuaas/controlplane/internal/auth"
	"gpuaas/controlplane/internal/fault"
	"gpuaas/controlplane/internal/id"
	"gpuaas/controlplane/internal/identity/internal/identitydb"
	"gpuaas/controlplane/internal/postgres"
	"gpuaas/controlplane/internal/redact"
)

// CreateServiceAccountToken makes a token for an active service account and
// returns its plain text, which exists nowhere else.
func (s *Service) CreateServiceAccountToken(ctx context.Context, project id.Project, which id.ServiceAccount, n NewToken) (Token, redact.Secret, error) {
	if err := checkNewToken(ctx, n); err != nil {
		return Token{}, redact.Secret{}, err
	}
	var token Token
	plain := mint(letterServiceAccount)
	err := s.inChange(ctx, func(ctx context.Context, c change) error {
		account, err := c.lockServiceAccount(ctx, project, which)
		if err != nil {
			return err
		}
		if account.Status != ServiceAccountActive {
			return fault.New(fault.Conflict, "service_account_disabled", "the service account is %s", account.Status).
				WithRemedy("enable it first")
		}
		org, err := c.grantable(ctx, project, account.Role)
		if err != nil {
			return err
		}
		token, err = c.insertToken(ctx, s.now(), plain, n, Token{Kind: TokenAPI, ServiceAccount: which},
			auth.Target{Org: org, Project: project})
		return err
	})
	return token, plain, err
}

// CreateOwnToken makes a token for the person who asks. A service account
// cannot prolong its own life that way.
func (s *Service) CreateOwnToken(ctx context.Context, n NewToken) (Token, redact.Secret, error) {
	if err := checkNewToken(ctx, n); err != nil {
		return Token{}, redact.Secret{}, err
	}
	caller := auth.From(ctx)
	if caller.Kind != auth.KindUser {
		return Token{}, redact.Secret{}, fault.New(fault.Forbidden, "person_required", "only people make tokens for themselves").
			WithRemedy("a project_admin makes tokens for the service accounts of the project")
	}
	self, _, err := ownerOf(caller)
	if err != nil {
		return Token{}, redact.Secret{}, err
	}
	var token Token
	plain := mint(letterPersonal)
	err = s.inChange(ctx, func(ctx context.Context, c change) error {
		user, err := c.HoldUser(ctx, self)
		if err != nil {
			return orNotFound(err)
		}
		if user.Disabled {
			return tokenInvalid()
		}
		token, err = c.insertToken(ctx, s.now(), plain, n, Token{Kind: TokenAPI, User: user.ID}, auth.Target{})
		return err
	})
	return token, plain, err
}

func checkNewToken(ctx context.Context, n NewToken) error {
	if err := n.check(); err != nil {
		return err
	}
	return checkScopes(auth.From(ctx), n.Scopes)
}

// insertToken stores a token for the owner named in t.
func (c change) insertToken(ctx context.Context, now time.Time, plain redact.Secret, n NewToken, t Token, target auth.Target) (Token, error) {
	row, err := c.InsertToken(ctx, identitydb.InsertTokenParams{
		ID: newID[id.Token](), Hash: digest(plain), Kind: string(t.Kind), UserID: t.User, ServiceAccountID: t.ServiceAccount,
		Name: n.Name, Scopes: permissionsColumn(n.Scopes), ExpiresAt: now.Add(n.life()), CreatedAt: now, MadeFrom: t.MadeFrom,
	})
	if err != nil {
		return Token{}, fmt.Errorf("insert token: %w", err)
	}
	token := tokenFrom(row)
	return token, c.record(ctx, tokenEntry("token.create", target, token), tokenEvent(eventwire.TokenCreated, target.Org, token))
}

// ServiceAccountTokens lists the tokens of a service account that still work.
func (s *Service) ServiceAccountTokens(ctx context.Context, project id.Project, which id.ServiceAccount, page postgres.Slice[id.Token]) ([]Token, error) {
	if _, err := s.ServiceAccount(ctx, project, which); err != nil {
		return nil, err
	}
	rows, err := s.reads.ListServiceAccountTokens(ctx, identitydb.ListServiceAccountTokensParams{
		ServiceAccountID: which, Now: s.now(), After: page.After.String(), PageSize: page.Limit,
	})
	return converted(rows, err, tokenFrom)
}

// OwnTokens lists the tokens of the caller that still work.
func (s *Service) OwnTokens(ctx context.Context, page postgres.Slice[id.Token]) ([]Token, error) {
	user, account, err := ownerOf(auth.From(ctx))
	if err != nil {
		return nil, err
	}
	if !account.IsZero() {
		rows, err := s.reads.ListServiceAccountTokens(ctx, identitydb.ListServiceAccountTokensParams{
			ServiceAccountID: account, Now: s.now(), After: page.After.String(), PageSize: page.Limit,
		})
		return converted(rows, err, tokenFrom)
	}
	rows, err := s.reads.ListUserTokens(ctx, identitydb.ListUserTokensParams{
		UserID: user, Now: s.now(), After: page.After.String(), PageSize: page.Limit,
	})
	return converted(rows, err, tokenFrom)
}

// RevokeServiceAccountToken makes a token of a service account useless.
func (s *Service) RevokeServiceAccountToken(ctx context.Context, project id.Project, which id.ServiceAccount, token id.Token) error {
	return s.inChange(ctx, func(ctx context.Context, c change) error {
		if _, err := c.lockServiceAccount(ctx, project, which); err != nil {
			return err
		}
		org, err := c.ProjectOrg(ctx, project)
		if err != nil {
			return fmt.Errorf("read tenant of project: %w", err)
		}
		return s.revoke(ctx, c, id.User{}, which, token, auth.Target{Org: org, Project: project})
	})
}

// RevokeOwnToken makes one of the caller's tokens useless; it may be the one
// that the request itself came with.
func (s *Service) RevokeOwnToken(ctx context.Context, token id.Token) error {
	caller := auth.From(ctx)
	if len(caller.Scopes) > 0 && token != caller.Token {
		return fault.New(fault.Forbidden, "scope_above_own", "a token with scopes can revoke nothing but itself").
			WithRemedy("sign in, or use a token without scopes")
	}
	user, account, err := ownerOf(caller)
	if err != nil {
		return err
	}
	var target auth.Target
	for project, role := range caller.Projects {
		if !account.IsZero() { // a service account has exactly one project
			target = auth.Target{Org: role.Org, Project: project}
		}
	}
	return s.inChange(ctx, func(ctx context.Context, c change) error {
		return s.revoke(ctx, c, user, account, token, target)
	})
}

// revoke: the token must belong to the one owner that is not zero. Sessions that
// were opened with it end with it.
func (s *Service) revoke(ctx context.Context, c change, user id.User, account id.ServiceAccount, which id.Token, target auth.Target) error {
	var rows []identitydb.ApiToken
	var err error
	if account.IsZero() {
		rows, err = c.revokeUserToken(ctx, identitydb.RevokeUserTokenParams{UserID: user, ID: which, Now: s.now()})
	} else {
		rows = make([]identitydb.ApiToken, 1)
		rows[0], err = c.RevokeServiceAccountToken(ctx, identitydb.RevokeServiceAccountTokenParams{ServiceAccountID: account, ID: which, Now: s.now()})
	}
	if err != nil {
		return orNotFound(err)
	}
	for _, row := range rows {
		token := tokenFrom(row)
		err := c.record(ctx, tokenEntry("token.revoke", target, token), tokenEvent(eventwire.TokenRevoked, target.Org, token))
		if err != nil {
			return err
		}
	}
	return nil
}

// revokeUserToken waits for sessions that are being opened, so that it misses none.
func (c change) revokeUserToken(ctx context.Context, p identitydb.RevokeUserTokenParams) ([]identitydb.ApiToken, error) {
	if _, err := c.LockUser(ctx, p.UserID); err != nil {
		return nil, err
	}
	rows, err := c.RevokeUserToken(ctx, p)
	if err == nil && len(rows) == 0 {
		err = pgx.ErrNoRows
	}
	return rows, err
}

// ownerOf is the row behind a principal: a person or a service account.
func ownerOf(p *auth.Principal) (user id.User, account id.ServiceAccount, err error) {
	switch p.Kind {
	case auth.KindUser:
		err = user.UnmarshalText([]byte(p.ID))
	case auth.KindServiceAccount:
		err = account.UnmarshalText([]byte(p.ID))
	case auth.KindSystem, auth.KindAnonymous:
		err = fault.New(fault.Forbidden, "no_tokens", "%s has no tokens", p.Name)
	}
	return user, account, err
}

func tokenEntry(action string, target auth.Target, t Token) audit.Entry {
	metadata := map[string]any{"name": t.Name, "kind": t.Kind, "scopes": t.Scopes, "expires_at": t.ExpiresAt.UTC()}
	if t.User.IsZero() {
		metadata["service_account_id"] = t.ServiceAccount
	} else {
		metadata["user_id"] = t.User
	}
	if !t.MadeFrom.IsZero() {
		metadata["made_from"] = t.MadeFrom
	}
	return audit.Entry{
		Action: action, TargetKind: "token", TargetID: t.ID.String(), Org: target.Org, Project: target.Project, Metadata: metadata,
	}
}
