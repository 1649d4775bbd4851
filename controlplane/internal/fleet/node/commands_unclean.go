package node

import (
	"context"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/id"
)

// Lock reads a node and locks it until the transaction ends.
func Lock(ctx context.Context, tx pgx.Tx, node id.Node) (Node, error) {
	return changeIn(tx).lock(ctx, node)
}

// KeepOut holds a node because it is not proven clean, besides whatever else holds
// it. A clean validation ends that.
func KeepOut(ctx context.Context, tx pgx.Tx, node id.Node, cause string) (Node, error) {
	c := changeIn(tx)
	n, err := c.lockHolds(ctx, node)
	if err != nil || n.holding(ForUnclean, "") {
		return n, err
	}
	return c.rehold(ctx, n.keptOut(), entry{event: "keep_out", cause: cause})
}

// Free locks a node and refuses one that an operation holds.
func Free(ctx context.Context, tx pgx.Tx, node id.Node) error {
	n, err := Lock(ctx, tx, node)
	if err != nil {
		return err
	}
	return n.Unheld()
}

// LetIn records that a tenant is about to get access to a node. It refuses
// while an operation holds the node: otherwise a tenant could get in behind the
// cleaning, and the proof would be false.
//
// by says how they get root. It is empty if they do not get root.
func LetIn(ctx context.Context, tx pgx.Tx, node id.Node, by RootCause, cause string) error {
	if err := Free(ctx, tx, node); err != nil {
		return err
	}
	if by != "" {
		return TaintRoot(ctx, tx, node, by, cause)
	}
	return Entered(ctx, tx, node, cause)
}

// Entered records that a tenant got access to a node. If the node is tainted
// already, nothing is added: a tenant may open hundreds of terminals. Every
// entry counts while an operation works on the node, because the proof of the
// operation must be newer than the last of them.
func Entered(ctx context.Context, tx pgx.Tx, node id.Node, cause string) error {
	n, err := Lock(ctx, tx, node)
	if err != nil || n.Tainted() && n.HeldBy == "" && n.Status.Is(Serving) {
		return err
	}
	return Taint(ctx, tx, node, cause)
}
