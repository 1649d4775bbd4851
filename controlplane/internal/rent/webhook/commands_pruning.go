package webhook

import (
	"context"
	"fmt"
	"time"

	"gpuaas/controlplane/internal/rent/webhook/internal/webhookdb"
)

// CountPrunable says how many deliveries were over before that time. Those that wait
// are not among them, unless their webhook is gone.
func (s *Service) CountPrunable(ctx context.Context, before time.Time, _ int32) (int64, error) {
	n, err := webhookdb.New(s.db).CountPrunable(ctx, before)
	if err != nil {
		return 0, fmt.Errorf("count old deliveries of webhooks: %w", err)
	}
	return n, nil
}

// Prune deletes deliveries that were over before that time, a batch of them.
func (s *Service) Prune(ctx context.Context, before time.Time, _, batch int32) (int64, error) {
	n, err := webhookdb.New(s.db).Prune(ctx, webhookdb.PruneParams{Before: before, BatchSize: batch})
	if err != nil {
		return 0, fmt.Errorf("delete old deliveries of webhooks: %w", err)
	}
	return n, nil
}
