package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/node/internal/nodedb"
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
