package node

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/node/internal/nodedb"
)

// Reimaged makes a node that is being drained enrol anew under the same id, and
// the workflow the one that is told of its first poll. The identity that it had
// is gone with its disks: certificates, tokens, and the machine it was bound to.
// The PKI is not told: the serials are refused at every call, and expire within
// a day. For the workflow that did it already, nothing happens.
func Reimaged(ctx context.Context, tx pgx.Tx, node id.Node, workflowID, cause string) (Node, error) {
	c := changeIn(tx)
	n, err := c.lock(ctx, node)
	if err != nil || n.Status == Enrolling && n.AwaitedBy == workflowID {
		return n, err
	}
	if _, err := Lifecycle.Next(n.Status, Reimage); err != nil {
		return Node{}, err
	}
	if _, err := c.disown(ctx, node, cause); err != nil {
		return Node{}, err
	}
	if err := c.ForgetSessions(ctx, node); err != nil {
		return Node{}, fmt.Errorf("forget sessions: %w", err)
	}
	row, err := c.ForgetAgent(ctx, nodedb.ForgetAgentParams{ID: node, AwaitedBy: workflowID})
	if err != nil {
		return Node{}, fmt.Errorf("forget agent of node: %w", err)
	}
	return c.move(ctx, nodeFrom(row), Reimage, cause)
}

// Removed takes a node whose removal is done out of the inventory, with its
// tokens and certificates. Its name is free again; its id never is. A node that
// is out of it already stays so.
func Removed(ctx context.Context, tx pgx.Tx, node id.Node, cause string) (Node, error) {
	c := changeIn(tx)
	n, err := c.lock(ctx, node)
	if err != nil || n.Status == Deleted {
		return n, err
	}
	return c.leave(ctx, n, Uninstalled, cause)
}

// leave ends a node together with everything that it could come back by.
func (c change) leave(ctx context.Context, n Node, event Event, cause string) (Node, error) {
	if _, err := Lifecycle.Next(n.Status, event); err != nil {
		return Node{}, err
	}
	n, err := c.disown(ctx, n.ID, cause)
	if err != nil {
		return Node{}, err
	}
	return c.move(ctx, n, event, cause)
}
