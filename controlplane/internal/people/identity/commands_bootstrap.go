package identity

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/auth"
)

const (
	bootstrapEmail = "admin@localhost"
	bootstrapName  = "admin"
	bootstrapLife  = 365 * 24 * time.Hour
)

// Bootstrap makes the first administrator, with one token, if nobody can
// administer the platform. If several replicas start at once, one of them makes
// the administrator and gets the token; the others learn that nothing was
// created.
//
// The token exists nowhere else. Bootstrap passes it to keep before the commit,
// so a crash in between leaves a useless token and not an administrator without
// one. If the transaction is repeated, keep is called again.
func (s *Service) Bootstrap(ctx context.Context, keep ...func(redact.Secret) error) (
	token redact.Secret, created bool, err error,
) {
	ctx = auth.With(ctx, auth.System("bootstrap"))
	err = s.inChange(ctx, func(ctx context.Context, c change) error {
		token, created = redact.Secret{}, false
		if err := c.LockBootstrap(ctx); err != nil {
			return fmt.Errorf("lock bootstrap: %w", err)
		}
		admins, err := c.LockPlatformAdmins(ctx)
		if err != nil || len(admins) > 0 {
			return err
		}
		admin, err := s.firstAdmin(ctx, c)
		if err != nil {
			return err
		}
		plain := mint(letterPersonal)
		_, err = c.insertToken(ctx, s.now(), plain, NewToken{Name: "bootstrap", Life: bootstrapLife},
			Token{Kind: TokenAPI, User: admin.ID}, auth.Target{})
		if err != nil {
			return err
		}
		for _, k := range keep {
			if err := k(plain); err != nil {
				return fmt.Errorf("keep bootstrap token: %w", err)
			}
		}
		token, created = plain, true
		return nil
	})
	if err != nil {
		return redact.Secret{}, false, err
	}
	return token, created, nil
}

// firstAdmin makes the administrator, or reinstates the one that an earlier
// start made.
func (s *Service) firstAdmin(ctx context.Context, c change) (User, error) {
	row, err := c.LockUserByEmail(ctx, bootstrapEmail)
	if errors.Is(err, pgx.ErrNoRows) {
		return c.insertUser(ctx, User{Email: bootstrapEmail, Name: bootstrapName, PlatformRole: auth.PlatformAdmin})
	}
	if err != nil {
		return User{}, fmt.Errorf("find bootstrap user: %w", err)
	}
	before := userFrom(row)
	if before.administers() {
		return before, nil
	}
	want := before
	want.PlatformRole, want.Disabled = auth.PlatformAdmin, false
	return s.updateUser(ctx, c, before, want)
}
