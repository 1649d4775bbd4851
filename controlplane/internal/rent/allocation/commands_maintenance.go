package allocation

import (
	"context"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/id"
)

// Hold locks the node of an allocation and then the allocation, for whoever changes
// something that depends on it in the same transaction.
func Hold(ctx context.Context, tx pgx.Tx, of id.Allocation) (Allocation, error) {
	a, _, err := hold(ctx, tx, of)
	return a, err
}

// HasNode says whether the tenant has the node, or is about to, and nobody has asked
// for its end.
func (a Allocation) HasNode() bool { return a.Status.live() && a.Times.ReleaseRequested == nil }

// ReleaseIn is Release in a transaction that holds the allocation.
func (s *Service) ReleaseIn(ctx context.Context, tx pgx.Tx, a Allocation, l Leaving) (Allocation, error) {
	return s.release(ctx, tx, a, l)
}

// Note adds an entry to the timeline of an allocation.
func Note(ctx context.Context, tx pgx.Tx, a Allocation, event, message string, details map[string]any) error {
	return note(ctx, tx, a, event, message, details)
}

// Mine reads an allocation of a project that the caller may change.
func (s *Service) Mine(ctx context.Context, which id.Allocation, project id.Project) (Allocation, error) {
	return s.mine(ctx, which, project)
}
