package allocation

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/rent/allocation/internal/allocationdb"
)

// BeginRepair says that the node of an active allocation is being repaired; its
// tenant keeps it. For one that is being repaired already nothing changes.
func (s *Service) BeginRepair(ctx context.Context, of id.Allocation, reason string) (Allocation, error) {
	return s.inHold(ctx, of, func(ctx context.Context, tx pgx.Tx, a Allocation) error {
		return s.BeginRepairIn(ctx, tx, a, id.Maintenance{}, reason)
	})
}

// EndRepair says that the node of an allocation is repaired. Where the tenant left
// meanwhile, the node may go back into service. What was begun as announced
// maintenance ends with that.
func (s *Service) EndRepair(ctx context.Context, of id.Allocation, reason string) (Allocation, error) {
	return s.inHold(ctx, of, func(ctx context.Context, tx pgx.Tx, a Allocation) error {
		if err := ownRepair(ctx, tx, a); err != nil {
			return err
		}
		return s.EndRepairIn(ctx, tx, a, reason)
	})
}

// inHold changes an allocation under the locks of its node and of itself.
func (s *Service) inHold(ctx context.Context, of id.Allocation,
	change func(context.Context, pgx.Tx, Allocation) error,
) (Allocation, error) {
	var now Allocation
	err := s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var err error
		if now, _, err = hold(ctx, tx, of); err != nil {
			return err
		}
		return change(ctx, tx, now)
	})
	return now, err
}

// BeginRepairIn is BeginRepair in a transaction that holds the allocation, for
// maintenance that was announced (zero: it was not), which begins over no other
// repair. The node is set aside, so that it does not go to others unrepaired if the
// tenant leaves meanwhile.
func (s *Service) BeginRepairIn(ctx context.Context, tx pgx.Tx, a Allocation, of id.Maintenance, reason string) error {
	if a.Status != Active {
		return fault.New(fault.Conflict, "allocation_state_conflict",
			"allocation %s is %s: only the node of an active one is repaired while its tenant keeps it", a.called(), a.Status).
			WithRemedy("see what it waits for: gpuaas allocation show %s", a.ID)
	}
	reason = strings.TrimSpace(reason)
	begun, err := allocationdb.New(tx).BeginRepair(ctx, allocationdb.BeginRepairParams{
		ID: id.New[id.Repair](), AllocationID: a.ID, NodeID: a.Node, MaintenanceID: of, Reason: reason,
		BeganBy: auth.From(ctx).ID,
	})
	if err != nil {
		return fmt.Errorf("begin repair of allocation %s: %w", a.ID, err)
	}
	switch {
	case begun == 0 && of.IsZero():
		return nil
	case begun == 0:
		return fault.New(fault.Conflict, "allocation_repairing",
			"the node of allocation %s is being repaired already, which was not announced", a.called()).
			WithRemedy("end that first: gpuaas allocation repair end %s", a.ID)
	}
	if _, err := node.SetAside(ctx, tx, a.Node, heldForRepair(a.ID),
		"its tenant keeps it while it is repaired"); err != nil {
		return err
	}
	if err := s.terminals.EndAll(ctx, tx, a.Node); err != nil {
		return err
	}
	message := "the node is being repaired: " + reason
	if err := note(ctx, tx, a, "repair_begin", message, nil); err != nil {
		return err
	}
	if err := record(ctx, tx, "allocation.repair_begin", a, reason,
		map[string]any{"maintenance_id": text(of)}); err != nil {
		return err
	}
	r, err := openRepair(ctx, tx, a.ID)
	if err != nil {
		return err
	}
	return publishRepair(ctx, tx, eventwire.AllocationRepairBegan, a, *r, message)
}

// EndRepairIn is EndRepair in a transaction that holds the allocation.
func (s *Service) EndRepairIn(ctx context.Context, tx pgx.Tx, a Allocation, reason string) error {
	ended, err := endRepair(ctx, tx, a, strings.TrimSpace(reason))
	if err != nil {
		return err
	}
	held, err := node.IsSetAside(ctx, tx, a.Node, node.ForRepair, a.ID.String())
	if err != nil {
		return err
	}
	if !ended && !held {
		return fault.New(fault.Conflict, "allocation_not_repairing", "the node of allocation %s is not being repaired",
			a.called()).WithRemedy("see it: gpuaas allocation show %s", a.ID)
	}
	if _, err := node.LetBack(ctx, tx, a.Node, node.ForRepair, a.ID.String(), "it is repaired"); err != nil {
		return err
	}
	return record(ctx, tx, "allocation.repair_end", a, reason, nil)
}

// endRepair ends the repair of the node of an allocation, if there is one. The node
// stays set aside.
func endRepair(ctx context.Context, tx pgx.Tx, a Allocation, because string) (ended bool, err error) {
	rows, err := allocationdb.New(tx).EndRepair(ctx, allocationdb.EndRepairParams{
		AllocationID: a.ID, EndedBy: auth.From(ctx).ID, EndedBecause: because,
	})
	if err != nil {
		return false, fmt.Errorf("end repair of allocation %s: %w", a.ID, err)
	}
	for _, row := range rows {
		message := "the repair of the node has ended: " + because
		if err := note(ctx, tx, a, "repair_end", message, map[string]any{"began_at": row.BeganAt}); err != nil {
			return true, err
		}
		if err := publishRepair(ctx, tx, eventwire.AllocationRepairEnded, a, repairFrom(row), message); err != nil {
			return true, err
		}
	}
	return len(rows) > 0, nil
}

func publishRepair(ctx context.Context, tx pgx.Tx, typ eventwire.Type, a Allocation, r Repair, message string) error {
	return outbox.Append(ctx, tx, outbox.Event{
		Type: typ, AggregateKind: aggregate, AggregateID: a.ID.String(), Org: a.Org, Project: a.Project,
		Payload: eventwire.AllocationRepair{
			AllocationID: a.ID.String(), Name: a.Name, NodeID: a.Node.String(), MaintenanceID: text(r.Maintenance),
			BeganAt: r.BeganAt, EndedAt: r.EndedAt, Message: message,
		},
	})
}

// working refuses what needs the node of an allocation while it is repaired.
func working(ctx context.Context, tx pgx.Tx, a Allocation) error {
	r, err := openRepair(ctx, tx, a.ID)
	if err != nil || r == nil {
		return err
	}
	return r.interrupted(a)
}

func openRepair(ctx context.Context, db allocationdb.DBTX, of id.Allocation) (*Repair, error) {
	row, err := allocationdb.New(db).OpenRepair(ctx, of)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil //nolint:nilnil // it is not being repaired
	}
	if err != nil {
		return nil, fmt.Errorf("look whether the node of allocation %s is being repaired: %w", of, err)
	}
	r := repairFrom(row)
	return &r, nil
}
