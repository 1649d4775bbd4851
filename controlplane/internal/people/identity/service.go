package identity

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/engine/audit"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/people/identity/internal/identitydb"
)

// Config is what the package needs to work.
type Config struct {
	DB     *postgres.DB
	Logger *slog.Logger
	Clock  func() time.Time // nil: the clock of the machine
	OIDC   OIDCConfig
}

// Service holds the commands and queries of the package. It is safe for
// concurrent use, and any number of replicas may run side by side.
type Service struct {
	db     *postgres.DB
	reads  *identitydb.Queries
	logger *slog.Logger
	now    func() time.Time
	oidc   OIDCConfig
	idp    *provider // nil: people cannot sign in, only tokens work
}

// New makes the service. It connects to nothing: a provider or database that
// is not up yet shows as unavailable until it is.
func New(cfg Config) *Service {
	s := &Service{db: cfg.DB, reads: identitydb.New(cfg.DB), logger: cfg.Logger, now: cfg.Clock, oidc: cfg.OIDC.withDefaults()}
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

// command is the body of one change.
type command func(ctx context.Context, c change) error

// change is the transaction of a command.
type change struct {
	tx pgx.Tx
	*identitydb.Queries
}

// inChange runs a command: what it changes, its audit entry and its events
// become true together or not at all.
func (s *Service) inChange(ctx context.Context, fn command) error {
	return s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return fn(ctx, change{tx: tx, Queries: identitydb.New(tx)})
	})
}

// record writes what was done and tells the outside of it.
func (c change) record(ctx context.Context, entry audit.Entry, events ...outbox.Event) error {
	entry.Result = audit.Success
	if err := audit.Record(ctx, c.tx, entry); err != nil {
		return err
	}
	return outbox.Append(ctx, c.tx, events...)
}

// orNotFound gives a missing row the meaning it has to a caller.
func orNotFound(err error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return notFound()
	}
	if err != nil {
		return fmt.Errorf("read identity: %w", err)
	}
	return nil
}
