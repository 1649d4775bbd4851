package allocation

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/rent/allocation/internal/allocationdb"
	"gpuaas/controlplane/internal/work/decommission"
)

// Tenancies tells operations on nodes what tenants have there, and hears from them
// what becomes of it.
type Tenancies struct {
	Runs Runs // nil: nothing is run on nodes
}

var _ decommission.Allocations = Tenancies{}

// Of implements decommission.Allocations.
func (Tenancies) Of(ctx context.Context, db postgres.Querier, of id.Node) (*decommission.Tenancy, error) {
	row, err := allocationdb.New(db).Tenant(ctx, of)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil //nolint:nilnil // nobody has it
	}
	if err != nil {
		return nil, fmt.Errorf("look who has node %s: %w", of, err)
	}
	a, err := from(row.Allocation)
	if err != nil {
		return nil, err
	}
	t := &decommission.Tenancy{
		ID: a.ID, Org: a.Org, Project: a.Project, Name: a.Name, Status: string(a.Status), Live: a.Status.live(),
		Cleanup: a.Cleanup, Since: a.Times.Created,
	}
	all, err := conditions(ctx, db, a.ID)
	if m := all[a.ID].Announced; m != nil {
		t.Maintenance = &decommission.Maintenance{
			ID: m.ID, Kind: m.Kind, Status: m.Status, EndsIt: m.Kind == "release", MayBegin: m.MayBegin,
			ConsentAsked: m.ConsentAsked, DueAt: m.DueAt,
		}
	}
	return t, err
}

// tenantOf locks the allocation that has a node; its id is zero if none has.
func tenantOf(ctx context.Context, tx pgx.Tx, of id.Node) (Allocation, error) {
	row, err := allocationdb.New(tx).Tenant(ctx, of)
	if errors.Is(err, pgx.ErrNoRows) {
		return Allocation{}, nil
	}
	if err != nil {
		return Allocation{}, fmt.Errorf("look who has node %s: %w", of, err)
	}
	return lock(ctx, tx, row.Allocation.ID)
}

// End implements decommission.Allocations.
func (t Tenancies) End(ctx context.Context, tx pgx.Tx, of id.Node, by id.Decommission, reason string) error {
	a, err := tenantOf(ctx, tx, of)
	if err != nil || a.ID.IsZero() {
		return err
	}
	if err := allocationdb.New(tx).SetCleanup(ctx, allocationdb.SetCleanupParams{ID: a.ID, CleanupID: by}); err != nil {
		return fmt.Errorf("note cleanup of allocation %s: %w", a.ID, err)
	}
	switch a.Status {
	case Requested, Provisioning:
		if _, err = giveUp(ctx, tx, a, Failure{
			Code: codeByOperation, Reason: ending(Leaving{Cause: ByOperation, Reason: reason}),
			Remedy: askAnother,
		}); err == nil {
			err = outbox.CancelWorkflow(ctx, tx, a.WorkflowID())
		}
	case Active:
		err = t.endActive(ctx, tx, a, Leaving{Cause: ByOperation, Reason: reason})
	case ReleaseFailed:
		_, err = move(ctx, tx, a, Release, "the node to be cleaned", "the node is cleaned by another operation", nil)
	case Releasing, Failed, Released:
		err = note(ctx, tx, a, "cleanup", "the node is being cleaned", nil)
	}
	return err
}

// endActive ends an allocation that is in use, with what its people run on the node.
func (t Tenancies) endActive(ctx context.Context, tx pgx.Tx, a Allocation, l Leaving) error {
	if err := setRelease(ctx, tx, a, l); err != nil {
		return err
	}
	now, err := move(ctx, tx, a, Release, "the node to be cleaned", ending(l), nil)
	if err == nil && t.Runs != nil {
		err = t.Runs.LeaveNode(ctx, tx, a.Node, "the allocation of the node has ended")
	}
	if err == nil && a.Access == RootAccess {
		err = cutOff(ctx, tx, now)
	}
	return err
}

// Cleaned implements decommission.Allocations.
func (Tenancies) Cleaned(ctx context.Context, tx pgx.Tx, of id.Node, _ id.Decommission, proof string) error {
	a, err := tenantOf(ctx, tx, of)
	if err != nil || a.ID.IsZero() {
		return err
	}
	if err := endClaims(ctx, tx, a, proof); err != nil {
		return err
	}
	switch a.Status {
	case Releasing:
		_, err = move(ctx, tx, a, Cleaned, "", proof, nil)
	case ReleaseFailed: // it went on without being asked for
		if a, err = move(ctx, tx, a, Release, "", "the node was cleaned after all", nil); err == nil {
			_, err = move(ctx, tx, a, Cleaned, "", proof, nil)
		}
	case Requested, Provisioning, Active, Failed, Released:
		err = note(ctx, tx, a, string(Cleaned), proof, nil)
	}
	return err
}

// Parked implements decommission.Allocations.
func (Tenancies) Parked(ctx context.Context, tx pgx.Tx, of id.Node, _ id.Decommission, why string) error {
	a, err := tenantOf(ctx, tx, of)
	if err != nil || a.ID.IsZero() {
		return err
	}
	return park(ctx, tx, a, why)
}

// Resumed implements decommission.Allocations.
func (Tenancies) Resumed(ctx context.Context, tx pgx.Tx, of id.Node, _ id.Decommission) error {
	a, err := tenantOf(ctx, tx, of)
	if err != nil || a.Status != ReleaseFailed {
		return err
	}
	_, err = move(ctx, tx, a, Release, "the node to be cleaned", "cleaning the node goes on", nil)
	return err
}
