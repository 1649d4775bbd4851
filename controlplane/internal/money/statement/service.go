package statement

import (
	"context"
	"time"

	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/money/statement/internal/statementdb"
)

// Service holds the commands and queries of the package.
type Service struct {
	db    *postgres.DB
	clock func(context.Context, *statementdb.Queries) (time.Time, error) // of the database, except in tests
}

// New makes the service. It connects to nothing.
func New(db *postgres.DB) *Service {
	return &Service{db: db, clock: func(ctx context.Context, q *statementdb.Queries) (time.Time, error) {
		return q.Now(ctx)
	}}
}
