package identity

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/audit"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/people/identity/internal/identitydb"
)

// CreateServiceAccountToken makes a token for an active service account and
// returns its text, which exists nowhere else. An account cannot make tokens
// for itself, and neither can anything that it has made.
func (s *Service) CreateServiceAccountToken(ctx context.Context, project id.Project, which id.ServiceAccount,
	n NewToken,
) (Token, redact.Secret, error) {
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
		org, err := c.ProjectOrg(ctx, project)
		if err != nil {
			return orNotFound(err)
		}
		target := auth.Target{Org: org, Project: project}
		if err := checkGrant(auth.From(ctx), target, account.Role, n.Scopes...); err != nil {
			return err
		}
		token, err = c.insertToken(ctx, s.now(), plain, n,
			Token{Kind: TokenAPI, ServiceAccount: which, MadeFrom: auth.From(ctx).Token}, target)
		return err
	})
	return token, plain, err
}

// CreateOwnToken makes a token for the person who asks. It refuses service
// accounts, because they could prolong their own life.
func (s *Service) CreateOwnToken(ctx context.Context, n NewToken) (Token, redact.Secret, error) {
	if err := checkNewToken(ctx, n); err != nil {
		return Token{}, redact.Secret{}, err
	}
	caller := auth.From(ctx)
	if caller.Kind != auth.KindUser {
		return Token{}, redact.Secret{}, fault.New(fault.Forbidden, "person_required",
			"only people make tokens for themselves").
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
		token, err = c.insertToken(ctx, s.now(), plain, n, Token{Kind: TokenAPI, User: user.ID, MadeFrom: caller.Token},
			auth.Target{})
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

// insertToken stores a token for the owner named in t. The token ends with the
// token that it is made with, at the latest.
func (c change) insertToken(ctx context.Context, now time.Time, plain redact.Secret, n NewToken, t Token,
	target auth.Target,
) (Token, error) {
	expires := now.Add(n.life())
	if !t.MadeFrom.IsZero() {
		parent, err := c.parent(ctx, now, t)
		if err != nil {
			return Token{}, err
		}
		if parent.ExpiresAt.Before(expires) {
			expires = parent.ExpiresAt
		}
	}
	row, err := c.InsertToken(ctx, identitydb.InsertTokenParams{
		ID: newID[id.Token](), Hash: digest(plain), Kind: string(t.Kind), UserID: t.User, ServiceAccountID: t.ServiceAccount,
		Name: n.Name, Scopes: permissionsColumn(n.Scopes), ExpiresAt: expires, CreatedAt: now, MadeFrom: t.MadeFrom,
	})
	if err != nil {
		return Token{}, fmt.Errorf("insert token: %w", err)
	}
	token := tokenFrom(row)
	return token, c.record(ctx, tokenEntry("token.create", target, token),
		tokenEvent(eventwire.TokenCreated, target, token))
}

// parent locks the token that a new one is made with, and refuses if that is
// not allowed.
func (c change) parent(ctx context.Context, now time.Time, t Token) (Token, error) {
	row, err := c.HoldToken(ctx, t.MadeFrom)
	if err != nil {
		return Token{}, orNotFound(err)
	}
	if row.RevokedAt != nil || !now.Before(row.ExpiresAt) {
		return Token{}, tokenInvalid()
	}
	line, err := c.TokenLine(ctx, identitydb.TokenLineParams{ID: t.MadeFrom, ServiceAccountID: t.ServiceAccount})
	switch {
	case err != nil:
		return Token{}, fmt.Errorf("read what a token was made with: %w", err)
	case line.OfAccount:
		return Token{}, fault.New(fault.Forbidden, "service_account_self",
			"a service account cannot make tokens for itself, nor can what it has made").
			WithRemedy("let a project_admin make it")
	case line.Length >= maxTokenLine:
		return Token{}, fault.New(fault.Conflict, "token_line_too_long",
			"%d tokens were made each with the one before it already", maxTokenLine).
			WithRemedy("sign in, and make the token with that")
	}
	return tokenFrom(row), nil
}

// ServiceAccountTokens lists the valid tokens of a service account.
func (s *Service) ServiceAccountTokens(ctx context.Context, project id.Project, which id.ServiceAccount,
	page postgres.Slice[id.Token],
) ([]Token, error) {
	if _, err := s.ServiceAccount(ctx, project, which); err != nil {
		return nil, err
	}
	rows, err := s.reads.ListServiceAccountTokens(ctx, identitydb.ListServiceAccountTokensParams{
		ServiceAccountID: which, Now: s.now(), After: page.After.String(), PageSize: page.Limit,
	})
	return converted(rows, err, tokenFrom)
}

// OwnTokens lists the valid tokens of the caller.
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

// RevokeServiceAccountToken revokes a token of a service account.
func (s *Service) RevokeServiceAccountToken(ctx context.Context, project id.Project, which id.ServiceAccount,
	token id.Token,
) error {
	return s.inChange(ctx, func(ctx context.Context, c change) error {
		if _, err := c.lockServiceAccount(ctx, project, which); err != nil {
			return err
		}
		return s.revoke(ctx, c, id.User{}, which, token)
	})
}

// RevokeOwnToken revokes one of the caller's tokens. That may be the token of
// the request itself, unless it is the last way in.
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
	return s.inChange(ctx, func(ctx context.Context, c change) error {
		return s.keepWayIn(ctx, c, caller.Platform == auth.PlatformAdmin,
			func() error { return s.revoke(ctx, c, user, account, token) })
	})
}

// revoke revokes a token, and with it every token that was made with it. The
// token must belong to the one owner that is not zero.
func (s *Service) revoke(ctx context.Context, c change, user id.User, account id.ServiceAccount, which id.Token) error {
	if account.IsZero() { // wait for sessions that are being opened, so that none is missed
		if _, err := c.LockUser(ctx, user); err != nil {
			return orNotFound(err)
		}
	}
	rows, err := c.RevokeToken(ctx, identitydb.RevokeTokenParams{
		UserID: user, ServiceAccountID: account, ID: which,
		Now: s.now(),
	})
	if err == nil && len(rows) == 0 {
		err = pgx.ErrNoRows
	}
	if err != nil {
		return orNotFound(err)
	}
	for _, row := range rows {
		token := tokenFrom(row)
		target, err := c.homeOf(ctx, token)
		if err != nil {
			return err
		}
		err = c.record(ctx, tokenEntry("token.revoke", target, token), tokenEvent(eventwire.TokenRevoked, target, token))
		if err != nil {
			return err
		}
	}
	return nil
}

// homeOf returns the project of a service account's token. For a person's token
// it is zero.
func (c change) homeOf(ctx context.Context, t Token) (auth.Target, error) {
	if t.ServiceAccount.IsZero() {
		return auth.Target{}, nil
	}
	home, err := c.AccountHome(ctx, t.ServiceAccount)
	if err != nil {
		return auth.Target{}, fmt.Errorf("read project of service account: %w", err)
	}
	return auth.Target{Org: home.OrgID, Project: home.ProjectID}, nil
}

// ownerOf returns the person or service account behind a principal.
func ownerOf(p *auth.Principal) (user id.User, account id.ServiceAccount, err error) {
	switch p.Kind {
	case auth.KindUser:
		err = user.UnmarshalText([]byte(p.ID))
	case auth.KindServiceAccount:
		err = account.UnmarshalText([]byte(p.ID))
	case auth.KindNode, auth.KindSystem, auth.KindAnonymous:
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
		Action: action, TargetKind: "token", TargetID: t.ID.String(), Org: target.Org, Project: target.Project,
		Metadata: metadata,
	}
}
