package identity

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/audit"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/people/identity/internal/identitydb"
)

// Config is what the package needs to work.
type Config struct {
	DB     *postgres.DB
	Logger *slog.Logger
	Clock  func() time.Time // nil: the clock of this machine
	OIDC   OIDCConfig
	Follow Follower // nil: nobody hears of rights that people lost
}

// Follower hears, in the transaction, that the rights of a person changed, so that
// what rests on them is looked at again.
type Follower interface {
	RightsChanged(ctx context.Context, tx pgx.Tx, user id.User) error
}

// Service holds the commands and queries of the package. It is safe for
// concurrent use, and any number of replicas may run side by side.
type Service struct {
	db     *postgres.DB
	reads  *identitydb.Queries
	logger *slog.Logger
	now    func() time.Time
	oidc   OIDCConfig
	idp    *provider // nil: nobody can sign in, only tokens work
	follow Follower
}

// New makes the service. It connects to nothing: while a provider or database
// is not up yet, calls fail as unavailable.
func New(cfg Config) *Service {
	s := &Service{
		db: cfg.DB, reads: identitydb.New(cfg.DB), logger: cfg.Logger, now: cfg.Clock,
		oidc: cfg.OIDC.withDefaults(), follow: cfg.Follow,
	}
	if s.logger == nil {
		s.logger = slog.Default()
	}
	if s.now == nil {
		s.now = time.Now
	}
	if s.oidc.Enabled() {
		s.idp = newProvider(s.oidc, s.now)
	}
	return s
}

type command func(ctx context.Context, c change) error

type change struct {
	tx pgx.Tx
	*identitydb.Queries
	follow Follower
}

// inChange runs a command. Its changes, audit entry and events commit together
// or not at all.
func (s *Service) inChange(ctx context.Context, fn command) error {
	return s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return fn(ctx, change{tx: tx, Queries: identitydb.New(tx), follow: s.follow})
	})
}

// record writes the audit entry and appends the events.
func (c change) record(ctx context.Context, entry audit.Entry, events ...outbox.Event) error {
	entry.Result = audit.Success
	if err := audit.Record(ctx, c.tx, entry); err != nil {
		return err
	}
	return outbox.Append(ctx, c.tx, events...)
}

// rightsChanged tells whoever follows that a person may have lost rights.
func (c change) rightsChanged(ctx context.Context, user id.User) error {
	if c.follow == nil {
		return nil
	}
	return c.follow.RightsChanged(ctx, c.tx, user)
}

// orNotFound turns a missing row into the fault that callers expect.
func orNotFound(err error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return notFound()
	}
	if err != nil {
		return fmt.Errorf("read identity: %w", err)
	}
	return nil
}
