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

// Hold keeps a node out of scheduling on behalf of an operation, whatever the
// state of the node; by names the operation. If the operation holds the node
// already, nothing changes.
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

// Unhold ends the hold of an operation. If the operation does not hold the
// node, nothing changes. A node that could be scheduled afterwards must be
// proven clean: Unhold refuses an active one, and gives an offline one a hold
// reason instead, because that becomes active by itself.
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

// SetAside takes a node out of scheduling for a reason, unless it is out already
// for a reason that somebody gave. LetBack takes the reason away. That the node is
// not clean is no such reason: it ends by itself, and this one has to outlast it.
func SetAside(ctx context.Context, tx pgx.Tx, node id.Node, reason, cause string) (Node, error) {
	c := changeIn(tx)
	n, err := c.lock(ctx, node)
	if err != nil || n.HoldReason != "" && !n.HeldUnclean {
		return n, err
	}
	n.HoldReason, n.HeldUnclean = reason, false
	return c.rehold(ctx, n, entry{event: "set_aside", cause: cause})
}

// LetBack ends what SetAside began for the same reason. A node that is not proven
// clean stays out of scheduling for that.
func LetBack(ctx context.Context, tx pgx.Tx, node id.Node, reason, cause string) (Node, error) {
	c := changeIn(tx)
	before, err := c.lock(ctx, node)
	if err != nil || before.HoldReason != reason {
		return before, err
	}
	after := before
	after.HoldReason = ""
	if err := mayServe(before, after); err != nil {
		after = after.keptOut()
	}
	return c.rehold(ctx, after, entry{event: "let_back", cause: cause})
}

// rehold writes the holds of a node, and whether it is schedulable with them.
func (c change) rehold(ctx context.Context, n Node, e entry) (Node, error) {
	after, err := c.setHolds(ctx, n)
	if err != nil {
		return Node{}, err
	}
	return after, c.noted(ctx, after, e)
}

func (c change) setHolds(ctx context.Context, n Node) (Node, error) {
	row, err := c.SetHolds(ctx, nodedb.SetHoldsParams{
		ID: n.ID, HoldReason: n.HoldReason, HeldUnclean: n.HeldUnclean,
		HeldBy: n.HeldBy, Schedulable: n.placeable(),
	})
	if err != nil {
		return Node{}, fmt.Errorf("note what holds node: %w", err)
	}
	return nodeFrom(row), nil
}

// noted records a change that does not change the state.
func (c change) noted(ctx context.Context, n Node, e entry) error {
	e.kind, e.action, e.tell = KindUpdated, "node."+e.event, eventwire.NodeUpdated
	return c.record(ctx, n, e)
}
