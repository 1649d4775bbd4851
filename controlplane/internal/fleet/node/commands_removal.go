package node

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/node/internal/nodedb"
)

// Reimaged sends a draining node back to enrolment under the same id, and
// registers the workflow that is signalled at its first poll. It revokes the
// old identity, which is gone with the disks: certificates, tokens and the
// fingerprint of the machine. The PKI is not told: every call refuses the old
// serials, and they expire within a day. If the same workflow did this already,
// nothing happens.
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
// tokens and certificates. Its name becomes free, its id never does. A node
// that has left already stays as it is.
func Removed(ctx context.Context, tx pgx.Tx, node id.Node, cause string) (Node, error) {
	c := changeIn(tx)
	n, err := c.lock(ctx, node)
	if err != nil || n.Status == Deleted {
		return n, err
	}
	return c.leave(ctx, n, Uninstalled, cause)
}

// leave moves a node out of the inventory and revokes everything with which it
// could come back.
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
