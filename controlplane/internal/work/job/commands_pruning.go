package job

import (
	"context"
	"fmt"
	"time"

	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/work/job/internal/jobdb"
)

// Ledgers are the ledgers of jobs that are over, of all families. The last entry of
// a ledger stays, and so do ledgers of jobs that left evidence or a certificate.
type Ledgers struct{ DB *postgres.DB }

// CountPrunable says how many entries belong to jobs that ended before that time and
// are not among the newest of their node.
func (l Ledgers) CountPrunable(ctx context.Context, before time.Time, keep int32) (int64, error) {
	n, err := jobdb.New(l.DB).CountPrunable(ctx, jobdb.CountPrunableParams{Before: before, Keep: keep})
	if err != nil {
		return 0, fmt.Errorf("count entries of old ledgers: %w", err)
	}
	return n, nil
}

// Prune deletes a batch of what CountPrunable counts.
func (l Ledgers) Prune(ctx context.Context, before time.Time, keep, batch int32) (int64, error) {
	n, err := jobdb.New(l.DB).Prune(ctx, jobdb.PruneParams{Before: before, Keep: keep, Batch: batch})
	if err != nil {
		return 0, fmt.Errorf("delete entries of old ledgers: %w", err)
	}
	return n, nil
}
