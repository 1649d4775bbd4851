package outbox

import (
	"context"
	"fmt"
	"time"

	"gpuaas/controlplane/internal/engine/outbox/internal/outboxdb"
	"gpuaas/controlplane/internal/engine/postgres"
)

// Finished are the messages that were published or discarded. Messages that wait
// or have failed are not among them.
type Finished struct{ DB *postgres.DB }

// CountPrunable says how many messages finished before that time.
func (f Finished) CountPrunable(ctx context.Context, before time.Time, _ int32) (int64, error) {
	n, err := outboxdb.New(f.DB).CountFinished(ctx, before)
	if err != nil {
		return 0, fmt.Errorf("count finished messages of the outbox: %w", err)
	}
	return n, nil
}

// Prune deletes messages that finished before that time, a batch of them.
func (f Finished) Prune(ctx context.Context, before time.Time, _, batch int32) (int64, error) {
	n, err := outboxdb.New(f.DB).DeleteFinished(ctx, outboxdb.DeleteFinishedParams{Before: before, BatchSize: batch})
	if err != nil {
		return 0, fmt.Errorf("delete finished messages of the outbox: %w", err)
	}
	return n, nil
}
