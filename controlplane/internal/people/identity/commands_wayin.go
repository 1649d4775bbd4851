package identity

import (
	"context"
	"fmt"
	"time"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/people/identity/internal/identitydb"
)

// keepWayIn makes a change that may remove a way to administer the platform,
// and refuses it if that was the last one. Such changes wait for each other.
func (s *Service) keepWayIn(ctx context.Context, c change, concerned bool, change func() error) error {
	if !concerned {
		return change()
	}
	if _, err := c.LockPlatformAdmins(ctx); err != nil {
		return fmt.Errorf("lock platform admins: %w", err)
	}
	now := s.now()
	before, err := s.waysIn(ctx, c.Queries, now)
	if err != nil {
		return err
	}
	if err := change(); err != nil {
		return err
	}
	after, err := s.waysIn(ctx, c.Queries, now)
	if err == nil && givenAway(before, after, now) {
		err = lastWayIn()
	}
	return err
}

func (s *Service) waysIn(ctx context.Context, q *identitydb.Queries, now time.Time) (w waysIn, err error) {
	if s.oidc.Enabled() {
		if w.linked, err = q.CountLinkedAdmins(ctx, s.oidc.Issuer); err != nil {
			return w, fmt.Errorf("count administrators who can sign in: %w", err)
		}
	}
	rows, err := q.WaysIn(ctx, now)
	w.tokens, err = converted(rows, err, tokenFrom)
	return w, err
}

// EndOfAccess says when the last token with which somebody can administer the
// platform ends. soon is true if that is soon and nobody can sign in otherwise.
func (s *Service) EndOfAccess(ctx context.Context) (end AccessEnd, soon bool, err error) {
	now := s.now()
	w, err := s.waysIn(ctx, s.reads, now)
	if err != nil || w.linked > 0 || len(w.tokens) == 0 || w.tokens[0].ExpiresAt.Sub(now) > endSoon {
		return AccessEnd{}, false, err
	}
	return AccessEnd{At: w.tokens[0].ExpiresAt, Token: w.tokens[0]}, true, nil
}

// AnnounceEndOfAccess warns operators once a day, in the log and with an event,
// that soon nobody can administer the platform.
func (s *Service) AnnounceEndOfAccess(ctx context.Context) error {
	end, soon, err := s.EndOfAccess(ctx)
	if err != nil || !soon {
		return err
	}
	ctx = auth.With(ctx, auth.System("identity"))
	return s.inChange(ctx, func(ctx context.Context, c change) error {
		now := s.now()
		told, err := c.NoteEndTold(ctx, identitydb.NoteEndToldParams{
			ID: end.Token.ID, Now: now,
			Before: now.Add(-24 * time.Hour),
		})
		if err != nil || told == 0 { // another replica did it today
			return err
		}
		s.logger.WarnContext(ctx,
			"nobody can administer the platform once this token ends; make a new one with gpuaas admin recover",
			"token_id", end.Token.ID.String(), "name", end.Token.Name, "expires_at", end.At.UTC())
		return c.record(ctx, tokenEntry("token.expiring", auth.Target{}, end.Token),
			tokenEvent(eventwire.TokenExpiring, auth.Target{}, end.Token))
	})
}

// Recover makes a token for an administrator, even if there are others. It is
// for the operator of the database when nobody can sign in any more. It passes
// the token to keep before the commit; it exists nowhere else. With revoke,
// Recover revokes all other tokens of that administrator and what was made with
// them.
func (s *Service) Recover(ctx context.Context, revoke bool, keep func(redact.Secret) error) (Token, error) {
	ctx = auth.With(ctx, auth.System("recover"))
	var token Token
	err := s.inChange(ctx, func(ctx context.Context, c change) error {
		if err := c.LockBootstrap(ctx); err != nil {
			return fmt.Errorf("lock bootstrap: %w", err)
		}
		if _, err := c.LockPlatformAdmins(ctx); err != nil {
			return fmt.Errorf("lock platform admins: %w", err)
		}
		admin, err := s.firstAdmin(ctx, c)
		if err != nil {
			return err
		}
		entry := userEntry("admin.recover", admin)
		if revoke {
			revoked, err := c.RevokeTokensOf(ctx, identitydb.RevokeTokensOfParams{UserID: admin.ID, Now: s.now()})
			if err != nil {
				return fmt.Errorf("revoke other tokens: %w", err)
			}
			entry.Metadata["tokens_revoked"] = revoked
		}
		plain := mint(letterPersonal)
		token, err = c.insertToken(ctx, s.now(), plain, NewToken{Name: "recovered", Life: bootstrapLife},
			Token{Kind: TokenAPI, User: admin.ID}, auth.Target{})
		if err != nil {
			return err
		}
		entry.Metadata["token_id"] = token.ID
		if err := c.record(ctx, entry); err != nil {
			return err
		}
		if err := keep(plain); err != nil {
			return fmt.Errorf("keep recovered token: %w", err)
		}
		return nil
	})
	return token, err
}
