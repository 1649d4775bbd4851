package balance

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/durable"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/money/balance/internal/balancedb"
)

// Releases ends allocations and reservations; allocation.Service does.
type Releases interface {
	// ReleaseUnpaid ends an allocation by the ordinary command, in a transaction of the
	// caller. It says whether there was something to end.
	ReleaseUnpaid(ctx context.Context, tx pgx.Tx, of id.Allocation, reason string) (bool, error)
	// EndUnpaid does the same to a reservation; reservation.Service does.
	EndUnpaid(ctx context.Context, tx pgx.Tx, of id.Reservation, reason string) (bool, error)
}

// Charges books what was used; metering.Service does.
type Charges interface {
	Tend(ctx context.Context) error
}

// Budgets tells projects how far they have come; budget.Service does.
type Budgets interface {
	Evaluate(ctx context.Context) error
}

// Schedules keeps schedules in Temporal; durable.Client does.
type Schedules interface {
	KeepSchedules(ctx context.Context, prefix string, want []durable.Schedule) error
}

// Config is what the package needs.
type Config struct {
	DB        *postgres.DB
	Releases  Releases
	Charges   Charges
	Budgets   Budgets   // nil: there are none
	Schedules Schedules // nil: nothing is scheduled
	// First is the time for which a start must be payable, and which is set aside for it.
	First time.Duration
	// Every is how often balances are looked at.
	Every time.Duration
	Clock func() time.Time // nil: that of the database
}

// Service holds the commands and queries of the package. Any number of replicas may
// run side by side.
type Service struct {
	db    *postgres.DB
	cfg   Config
	clock func(context.Context, *balancedb.Queries) (time.Time, error)
}

// New makes the service. It connects to nothing.
func New(cfg Config) *Service {
	return &Service{db: cfg.DB, cfg: cfg, clock: func(ctx context.Context, q *balancedb.Queries) (time.Time, error) {
		if cfg.Clock != nil {
			return cfg.Clock(), nil
		}
		return q.Now(ctx)
	}}
}

// moment is the time by the clock that was given; nil: a statement takes that of the
// database.
func (s *Service) moment() *time.Time {
	if s.cfg.Clock == nil {
		return nil
	}
	return new(s.cfg.Clock())
}
