package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/id"
	"gpuaas/controlplane/internal/node/internal/nodedb"
)

// Hold keeps a node out of scheduling on behalf of an operation, whatever its
// state; by names the operation. To hold what one holds already changes
// nothing.
func Hold(ctx context.Context, tx pgx.Tx, node id.Node, by, cause string) (Node, error) {
	if by == "" {
		return Node{}, errors.New("hold node: nobody is named who does")
	}
	c := changeIn(tx)
	n, err := c.lock(ctx, node)
	if err != nil || n.HeldBy == by {
		return n, err
	}
	if err := n.gone(); err != nil {
		return Node{}, err
	}
	if n.HeldBy != "" {
		return Node{}, n.held()
	}
	n.HeldBy = by
	return c.rehold(ctx, n, entry{event: "hold", cause: cause, metadata: map[string]any{"held_by": by}})
}

// Unhold lets go of a node that an operation holds; one that it does not hold
// stays as it is. A node that could be scheduled then must be proven clean:
// an active one is refused, and one that is offline keeps a reason instead,
// because it becomes active without being asked.
func Unhold(ctx context.Context, tx pgx.Tx, node id.Node, by, cause string) (Node, error) {
	c := changeIn(tx)
	before, err := c.lock(ctx, node)
	if err != nil || by == "" || before.HeldBy != by {
		return before, err
	}
	after := before
	after.HeldBy = ""
	if err := mayServe(before, after); err != nil {
		if after.Status != Offline {
			return Node{}, err
		}
		after = after.keptOut()
	}
	return c.rehold(ctx, after, entry{event: "unhold", cause: cause, metadata: map[string]any{"held_by": by}})
}

// Taint notes that a tenant got access to a node, or that it was found unclean.
// A node that is in service stays there.
func Taint(ctx context.Context, tx pgx.Tx, node id.Node, cause string) error {
	c := changeIn(tx)
	if _, err := c.lock(ctx, node); err != nil {
		return err
	}
	row, err := c.SetTainted(ctx, node)
	if err != nil {
		return fmt.Errorf("taint node: %w", err)
	}
	return c.noted(ctx, nodeFrom(row), entry{event: "taint", cause: cause})
}

// NoteClean notes a validation that found nothing. at is when it looked, by the
// clock of the database and rather too early than too late: a tenant that got
// access after that is not covered.
func NoteClean(ctx context.Context, tx pgx.Tx, node id.Node, at time.Time, cause string) (Node, error) {
	c := changeIn(tx)
	before, err := c.lock(ctx, node)
	if err != nil {
		return Node{}, err
	}
	at = at.Truncate(time.Microsecond) // as the database keeps it
	if before.CleanAt != nil && !at.After(*before.CleanAt) {
		return before, nil
	}
	row, err := c.SetClean(ctx, nodedb.SetCleanParams{ID: node, At: at})
	if err != nil {
		return Node{}, fmt.Errorf("note that node is clean: %w", err)
	}
	after := nodeFrom(row)
	e := entry{event: "clean", cause: cause, metadata: map[string]any{"clean_at": after.CleanAt, "tainted": after.Tainted()}}
	if after.HeldUnclean && !after.Tainted() {
		after.HoldReason, after.HeldUnclean = "", false
		return c.rehold(ctx, after, e)
	}
	return after, c.noted(ctx, after, e)
}

// rehold writes what holds a node and what follows from it.
func (c change) rehold(ctx context.Context, n Node, e entry) (Node, error) {
	after, err := c.setHolds(ctx, n)
	if err != nil {
		return Node{}, err
	}
	return after, c.noted(ctx, after, e)
}

func (c change) setHolds(ctx context.Context, n Node) (Node, error) {
	row, err := c.SetHolds(ctx, nodedb.SetHoldsParams{ID: n.ID, HoldReason: n.HoldReason, HeldUnclean: n.HeldUnclean, HeldBy: n.HeldBy, Schedulable: n.placeable()})
	if err != nil {
		return Node{}, fmt.Errorf("note what holds node: %w", err)
	}
	return nodeFrom(row), nil
}

// noted records a change that is none of the state.
func (c change) noted(ctx context.Context, n Node, e entry) error {
	e.kind, e.action, e.tell = KindUpdated, "node."+e.event, eventwire.NodeUpdated
	return c.record(ctx, n, e)
}
