package agenttask

import (
	"context"
	"fmt"
	"time"

	"gpuaas/controlplane/internal/fleet/agenttask/internal/agenttaskdb"
)

// CountPrunable says how many tasks ended before that time and may be deleted: they
// are not among the newest of their node, no evidence names them, no job is at work
// on their node, and they are not what last succeeded on its installation.
func (c Commands) CountPrunable(ctx context.Context, before time.Time, keep int32) (int64, error) {
	n, err := agenttaskdb.New(c.DB).CountPrunable(ctx, agenttaskdb.CountPrunableParams{Before: before, Keep: keep})
	if err != nil {
		return 0, fmt.Errorf("count old tasks: %w", err)
	}
	return n, nil
}

// Prune deletes a batch of what CountPrunable counts, with their steps.
func (c Commands) Prune(ctx context.Context, before time.Time, keep, batch int32) (int64, error) {
	n, err := agenttaskdb.New(c.DB).Prune(ctx, agenttaskdb.PruneParams{Before: before, Keep: keep, Batch: batch})
	if err != nil {
		return 0, fmt.Errorf("delete old tasks: %w", err)
	}
	return n, nil
}
