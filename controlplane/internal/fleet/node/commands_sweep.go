package node

import (
	"context"
	"fmt"
	"time"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/fleet/node/internal/nodedb"
)

// sweepBatch limits how many nodes one transaction of the sweep changes.
const sweepBatch = 200

// Sweep marks nodes offline that were silent for too long, and active again
// when they were heard. Only one process sweeps at a time, and it writes only
// rows that change.
//
// Silence counts only if a listener was up for all of it. After its first loss
// a node comes back at its next contact. A node that flaps must stay in contact
// longer each time: 1 min after the second loss within an hour, then 2, 4, 8,
// and at most 10.
func (s *Service) Sweep(ctx context.Context) (changed int, err error) {
	ctx = auth.With(ctx, auth.System("node-sweep"))
	for _, pass := range []func(context.Context, change) (int, error){s.sweepLost, s.sweepReturned} {
		for {
			n, err := s.sweepOnce(ctx, pass)
			changed += n
			if err != nil {
				return changed, err
			}
			if n < sweepBatch {
				break
			}
		}
	}
	return changed, nil
}

func (s *Service) sweepOnce(ctx context.Context, pass func(context.Context, change) (int, error)) (n int, err error) {
	err = s.inChange(ctx, func(ctx context.Context, c change) error {
		n = 0
		mine, err := c.TrySweep(ctx)
		if err != nil {
			return fmt.Errorf("take the sweep of nodes: %w", err)
		}
		if !mine {
			return nil
		}
		n, err = pass(ctx, c)
		return err
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

func (s *Service) sweepLost(ctx context.Context, c change) (int, error) {
	rows, err := c.Lost(ctx, nodedb.LostParams{
		OfflineSeconds: s.settings.OfflineAfter.Seconds(), DeafSeconds: s.settings.deaf().Seconds(), Batch: sweepBatch,
	})
	if err != nil {
		return 0, fmt.Errorf("list silent nodes: %w", err)
	}
	for _, r := range rows {
		cause := fmt.Sprintf("the agent was last heard of at %s", r.LastContactAt.UTC().Format(time.RFC3339))
		if err := c.sweep(ctx, r.ID, LoseContact, cause); err != nil {
			return 0, err
		}
		if err := s.onDoubt(ctx, c.tx, r.ID, cause); err != nil {
			return 0, fmt.Errorf("raise doubt about node %s: %w", r.ID, err)
		}
	}
	return len(rows), nil
}

func (s *Service) sweepReturned(ctx context.Context, c change) (int, error) {
	nodes, err := c.Returned(ctx, nodedb.ReturnedParams{
		OfflineSeconds: s.settings.OfflineAfter.Seconds(),
		Batch:          sweepBatch,
	})
	if err != nil {
		return 0, fmt.Errorf("list nodes that were heard of again: %w", err)
	}
	for _, node := range nodes {
		if err := c.sweep(ctx, node, RegainContact, "the agent was heard of again"); err != nil {
			return 0, err
		}
	}
	return len(nodes), nil
}

func (c change) sweep(ctx context.Context, node id.Node, event Event, cause string) error {
	_, err := Move(ctx, c.tx, node, event, cause)
	return err
}
