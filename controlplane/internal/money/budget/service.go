package budget

import (
	"context"
	"time"

	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/money/budget/internal/budgetdb"
)

// Config is what the package needs.
type Config struct {
	DB *postgres.DB
	// First is the time with which a start counts until it was charged.
	First time.Duration
	Clock func() time.Time // nil: that of the database
}

// Service holds the commands and queries of the package. Any number of replicas may
// run side by side.
type Service struct {
	db    *postgres.DB
	first time.Duration
	clock func(context.Context, *budgetdb.Queries) (time.Time, error)
}

// New makes the service. It connects to nothing.
func New(cfg Config) *Service {
	return &Service{
		db: cfg.DB, first: cfg.First, clock: func(ctx context.Context, q *budgetdb.Queries) (time.Time, error) {
			if cfg.Clock != nil {
				return cfg.Clock(), nil
			}
			return q.Now(ctx)
		},
	}
}
