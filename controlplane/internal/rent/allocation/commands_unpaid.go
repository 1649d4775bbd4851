package allocation

import (
	"context"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/id"
)

// ReleaseUnpaid ends an allocation that its tenant cannot pay any more, in a transaction
// of the caller: by the ordinary command, protected or not. It says whether there was
// something to end. It locks the node and the allocation.
func (s *Service) ReleaseUnpaid(ctx context.Context, tx pgx.Tx, of id.Allocation, reason string) (bool, error) {
	a, n, err := hold(ctx, tx, of)
	if err != nil || !a.Status.live() || a.Times.ReleaseRequested != nil {
		return false, err
	}
	now, err := s.release(ctx, tx, a, Leaving{Cause: ByBilling, Reason: reason, root: n.Root.Stands()})
	if err != nil {
		return false, err
	}
	return true, publish(ctx, tx, eventwire.AllocationForced, now, ending(Leaving{Cause: ByBilling, Reason: reason}))
}
