package identity

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/audit"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/people/identity/internal/identitydb"
)

// OpenSession makes a session for the person who holds a token. The session may
// do what the token may, and ends with it at the latest. It replaces the former
// session of the browser, if there is one.
func (s *Service) OpenSession(ctx context.Context, presented, former redact.Secret) (Token, redact.Secret, error) {
	caller, err := s.Authenticate(ctx, presented)
	if err != nil {
		return Token{}, redact.Secret{}, s.noteUselessToken(ctx, presented, err)
	}
	ctx = auth.With(ctx, caller)
	if caller.Kind != auth.KindUser {
		refusal := fault.New(fault.Forbidden, "person_required",
			"sessions are for people; this token belongs to a service account").
			WithRemedy("sign in with a token of your own; programs send theirs in the header Authorization")
		return Token{}, redact.Secret{}, s.noteTokenRefusal(ctx, caller.Token.String(), refusal)
	}
	token, plain, err := s.sessionLike(ctx, caller, former)
	if err != nil {
		return Token{}, redact.Secret{}, s.noteTokenRefusal(ctx, caller.Token.String(), err)
	}
	return token, plain, nil
}

// sessionLike reads the person again, now that they are locked.
func (s *Service) sessionLike(ctx context.Context, caller *auth.Principal, former redact.Secret) (
	Token, redact.Secret, error,
) {
	self, _, err := ownerOf(caller)
	if err != nil {
		return Token{}, redact.Secret{}, err
	}
	var token Token
	plain := mint(letterSession)
	err = s.inChange(ctx, func(ctx context.Context, c change) error {
		if err := s.endFormer(ctx, c, former, caller.Token); err != nil {
			return err
		}
		user, err := c.HoldUser(ctx, self)
		if err != nil {
			return orNotFound(err)
		}
		if user.Disabled {
			return tokenInvalid()
		}
		token, err = c.insertToken(ctx, s.now(), plain,
			NewToken{Name: "sign-in", Life: s.oidc.SessionTTL, Scopes: caller.Scopes},
			Token{Kind: TokenSession, User: self, MadeFrom: caller.Token}, auth.Target{})
		return err
	})
	return token, plain, err
}

// endFormer ends the session that a browser replaces, unless the new one is
// made from it. If the former one is the last way in, it stays.
func (s *Service) endFormer(ctx context.Context, c change, former redact.Secret, presented id.Token) error {
	if !wellFormed(former) {
		return nil
	}
	row, err := c.WorkingSession(ctx, identitydb.WorkingSessionParams{Hash: digest(former), Now: s.now()})
	if errors.Is(err, pgx.ErrNoRows) || err == nil && row.ID == presented {
		return nil
	}
	if err != nil {
		return fmt.Errorf("find former session: %w", err)
	}
	owner, err := c.User(ctx, row.UserID)
	if err != nil {
		return fmt.Errorf("read owner of former session: %w", err)
	}
	err = pgx.BeginFunc(ctx, c.tx, func(tx pgx.Tx) error { // a savepoint: it can be rolled back alone
		part := change{tx: tx, Queries: identitydb.New(tx)}
		return s.keepWayIn(ctx, part, userFrom(owner).administers(), func() error {
			return s.revoke(ctx, part, row.UserID, id.ServiceAccount{}, row.ID)
		})
	})
	switch {
	case fault.KindOf(err) == fault.NotFound: // somebody else has just ended it
		return nil
	case fault.CodeOf(err) == codeLastWayIn:
		s.logger.WarnContext(ctx, "the former session of a browser goes on: it is the last way in", "token_id",
			row.ID.String())
		return nil
	}
	return err
}

// noteUselessToken audits that somebody presented a token that no longer works.
// It does not audit text that never was a token: anybody can send such guesses
// without end, so they are logged and counted by the limit on strangers.
func (s *Service) noteUselessToken(ctx context.Context, presented redact.Secret, refusal error) error {
	if fault.KindOf(refusal) != fault.Unauthenticated {
		return refusal
	}
	row, err := s.reads.TokenOwner(ctx, identitydb.TokenOwnerParams{Hash: digest(presented), Now: s.now()})
	if errors.Is(err, pgx.ErrNoRows) {
		s.logger.WarnContext(ctx, "a sign-in was refused", "code", fault.CodeOf(refusal), "error", refusal)
		return refusal
	}
	if err != nil {
		s.logger.ErrorContext(ctx, "could not audit a refused sign-in", "code", fault.CodeOf(refusal), "error", err)
		return refusal
	}
	return s.noteTokenRefusal(ctx, row.ID.String(), refusal)
}

// noteTokenRefusal audits that somebody was refused with a token.
func (s *Service) noteTokenRefusal(ctx context.Context, token string, refusal error) error {
	return s.noteRefusal(ctx, audit.Entry{TargetKind: "token", TargetID: token}, refusal)
}
