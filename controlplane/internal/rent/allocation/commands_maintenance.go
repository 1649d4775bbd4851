package allocation

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/rent/allocation/internal/allocationdb"
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

// Mine reads an allocation of a project that the caller may change as one of its
// people: a role on the platform counts for nothing here.
func (s *Service) Mine(ctx context.Context, which id.Allocation, project id.Project) (Allocation, error) {
	who := *auth.From(ctx)
	who.Platform = ""
	return s.mine(auth.With(ctx, &who), which, project)
}

// makeWay sets the node of an allocation that ends aside, if its tenant was told to
// leave it for maintenance: it does not go to others before that is finished.
func makeWay(ctx context.Context, tx pgx.Tx, a Allocation) error {
	of, err := allocationdb.New(tx).MadeWayFor(ctx, allocationdb.MadeWayForParams{AllocationID: a.ID, NodeID: a.Node})
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look what allocation %s makes way for: %w", a.ID, err)
	}
	_, err = node.SetAside(ctx, tx, a.Node, HeldForMaintenance(of), "its tenant has left, and maintenance was announced")
	return err
}

// ownRepair refuses to end by hand what belongs to maintenance that is under way.
func ownRepair(ctx context.Context, tx pgx.Tx, a Allocation) error {
	of, err := allocationdb.New(tx).MaintenanceUnderWay(ctx, a.ID)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for maintenance of allocation %s: %w", a.ID, err)
	}
	return fault.New(fault.Conflict, "maintenance_under_way",
		"the node of allocation %s is under announced maintenance, which the repair belongs to", a.called()).
		WithRemedy("finish the maintenance: gpuaas maintenance finish %s", of)
}
