package metering

import (
	"context"
	"time"

	"gpuaas/controlplane/internal/money/metering/internal/meteringdb"
)

// SetClock lets a test say what time it is.
func (s *Service) SetClock(now func() time.Time) {
	s.clock = func(context.Context, *meteringdb.Queries) (time.Time, error) { return now(), nil }
}
