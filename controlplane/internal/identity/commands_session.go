package identity

import (
	"context"

	"gpuaas/controlplane/internal/audit"
	"gpuaas/controlplane/internal/auth"
	"gpuaas/controlplane/internal/fault"
	"gpuaas/controlplane/internal/identity/internal/identitydb"
	"gpuaas/controlplane/internal/redact"
)

// OpenSession makes a session for the person who holds a token: it can do what
// the token can, and ends with it at the latest.
func (s *Service) OpenSession(ctx context.Context, presented redact.Secret) (Token, redact.Secret, error) {
	caller, err := s.Authenticate(ctx, presented)
	if err != nil {
		return Token{}, redact.Secret{}, s.noteTokenRefusal(ctx, "unknown", err)
	}
	ctx = auth.With(ctx, caller)
	if caller.Kind != auth.KindUser {
		refusal := fault.New(fault.Forbidden, "person_required", "sessions are for people; this token belongs to a service account").
			WithRemedy("sign in with a token of your own; programs send theirs in the header Authorization")
		return Token{}, redact.Secret{}, s.noteTokenRefusal(ctx, caller.Token.String(), refusal)
	}
	token, plain, err := s.sessionLike(ctx, caller)
	if err != nil {
		return Token{}, redact.Secret{}, s.noteTokenRefusal(ctx, caller.Token.String(), err)
	}
	return token, plain, nil
}

// sessionLike looks at person and token again, now that neither can change.
func (s *Service) sessionLike(ctx context.Context, caller *auth.Principal) (Token, redact.Secret, error) {
	self, _, err := ownerOf(caller)
	if err != nil {
		return Token{}, redact.Secret{}, err
	}
	var token Token
	plain := mint(letterSession)
	err = s.inChange(ctx, func(ctx context.Context, c change) error {
		user, err := c.HoldUser(ctx, self)
		if err != nil {
			return orNotFound(err)
		}
		row, err := c.HoldUserToken(ctx, identitydb.HoldUserTokenParams{UserID: self, ID: caller.Token})
		if err != nil {
			return orNotFound(err)
		}
		now := s.now()
		if user.Disabled || row.RevokedAt != nil || !now.Before(row.ExpiresAt) {
			return tokenInvalid()
		}
		token, err = c.insertToken(ctx, now, plain, NewToken{
			Name: "sign-in", Life: min(s.oidc.SessionTTL, row.ExpiresAt.Sub(now)), Scopes: permissionsFrom(row.Scopes),
		}, Token{Kind: TokenSession, User: self}, auth.Target{})
		return err
	})
	return token, plain, err
}

// noteTokenRefusal audits that somebody was not let in with a token.
func (s *Service) noteTokenRefusal(ctx context.Context, token string, refusal error) error {
	return s.noteRefusal(ctx, audit.Entry{TargetKind: "token", TargetID: token}, refusal)
}
