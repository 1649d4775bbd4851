package node

import (
	"context"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/id"
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
	n.HoldReason = unclean
	return c.rehold(ctx, n, entry{event: "keep_out", cause: cause})
}
