package node

import (
	"context"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/id"
)

// Lock reads a node within a transaction: until that ends, nobody else changes it.
func Lock(ctx context.Context, tx pgx.Tx, node id.Node) (Node, error) {
	return changeIn(tx).lock(ctx, node)
}

// KeepOut gives a node that is not proven clean a reason to be kept out of
// scheduling, which a clean validation takes away. One that has a reason
// already keeps that.
func KeepOut(ctx context.Context, tx pgx.Tx, node id.Node, cause string) (Node, error) {
	c := changeIn(tx)
	n, err := c.lock(ctx, node)
	if err != nil || n.HoldReason != "" {
		return n, err
	}
	return c.rehold(ctx, n.keptOut(), entry{event: "keep_out", cause: cause})
}

// LetIn notes that a tenant is about to get access to a node, and refuses that
// while an operation holds it: whoever got in behind the cleaning would be
// covered by a proof that is none.
//
// by says how they get root; empty: they do not.
func LetIn(ctx context.Context, tx pgx.Tx, node id.Node, by RootCause, cause string) error {
	n, err := Lock(ctx, tx, node)
	if err != nil {
		return err
	}
	if err := n.Unheld(); err != nil {
		return err
	}
	if by != "" {
		return TaintRoot(ctx, tx, node, by, cause)
	}
	return Taint(ctx, tx, node, cause)
}
