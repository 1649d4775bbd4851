package operation

import (
	"context"
	"fmt"
	"time"

	"gpuaas/controlplane/internal/operate/operation/internal/operationdb"
)

// CountPrunable says how many pieces of logs are of runs that ended before that time.
// What became of each step stays, and so do the logs of runs that were resumed since.
func (s *Service) CountPrunable(ctx context.Context, before time.Time, _ int32) (int64, error) {
	n, err := operationdb.New(s.db).CountPrunableLogs(ctx, before)
	if err != nil {
		return 0, fmt.Errorf("count old logs of operations: %w", err)
	}
	return n, nil
}

// Prune deletes a batch of what CountPrunable counts.
func (s *Service) Prune(ctx context.Context, before time.Time, _, batch int32) (int64, error) {
	n, err := operationdb.New(s.db).PruneLogs(ctx, operationdb.PruneLogsParams{Before: before, Batch: batch})
	if err != nil {
		return 0, fmt.Errorf("delete old logs of operations: %w", err)
	}
	return n, nil
}
