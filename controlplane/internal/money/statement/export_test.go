package statement

import (
	"context"
	"time"

	"gpuaas/controlplane/internal/money/statement/internal/statementdb"
)

// SetClock replaces the clock of the database.
func (s *Service) SetClock(now func() time.Time) {
	s.clock = func(context.Context, *statementdb.Queries) (time.Time, error) { return now(), nil }
}
