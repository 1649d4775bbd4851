package node

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/node/internal/nodedb"
)

// Move is the only function that changes the state of a node. It runs in the
// transaction of the caller that owns the edge; cause tells people why.
//
// A node that leaves active stops being schedulable. A node that becomes active
// is schedulable unless a reason or an operation holds it. If the node is not
// proven clean, Move refuses to return or reactivate it; where events that
// already happened make it active, Move gives it a hold reason instead.
// Reimaging raises the generation, so tasks for the old installation are void.
func Move(ctx context.Context, tx pgx.Tx, node id.Node, event Event, cause string) (Node, error) {
	c := changeIn(tx)
	before, err := c.lock(ctx, node)
	if err != nil {
		return Node{}, err
	}
	return c.move(ctx, before, event, cause)
}

// move is Move for a node that is already locked.
func (c change) move(ctx context.Context, before Node, event Event, cause string) (Node, error) {
	next, err := before.moved(event)
	if err != nil {
		return Node{}, err
	}
	if len(next.Holds) > 0 { // it was kept out: nothing else held it
		if next.Holds, err = c.keepHolds(ctx, next); err != nil {
			return Node{}, err
		}
	}
	row, err := c.SetStatus(ctx, nodedb.SetStatusParams{
		ID: before.ID, Status: string(next.Status), Schedulable: next.placeable(), Generation: next.Generation,
		HoldReason: next.HoldReason, HeldUnclean: next.HeldUnclean,
	})
	if err != nil {
		return Node{}, fmt.Errorf("move node to %s: %w", next.Status, err)
	}
	if next.Status == Deleted { // otherwise the sweep would look at it for ever
		if err := c.DeleteContact(ctx, before.ID); err != nil {
			return Node{}, fmt.Errorf("forget contact of node: %w", err)
		}
	}
	after := nodeFrom(row)
	after.Inspection, after.Holds = before.Inspection, next.Holds
	return after, c.record(ctx, after, entry{
		kind: KindStateChanged, event: string(event), from: before.Status, cause: cause,
		action: "node." + string(event), tell: eventwire.NodeStateChanged,
	})
}

// moved returns the node after an event.
func (n Node) moved(event Event) (Node, error) {
	next := n
	var err error
	if next.Status, err = Lifecycle.Next(n.Status, event); err != nil {
		return n, err
	}
	if event == Reimage {
		next.Generation++
	}
	if err := mayServe(n, next); err != nil {
		if event == ReturnToService || event == Reactivate {
			return n, err
		}
		next = next.keptOut()
	}
	return next, nil
}
