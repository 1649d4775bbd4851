package node

import (
	"context"
	"fmt"
	"time"

	"gpuaas/controlplane/internal/fleet/node/internal/nodedb"
)

// Certificates are those that nodes were given and that others have replaced. The
// newest of a node is never among them.
type Certificates struct{ *Service }

// CountPrunable says how many ended before that time and are not among the newest
// of their node.
func (c Certificates) CountPrunable(ctx context.Context, before time.Time, keep int32) (int64, error) {
	n, err := c.reads.CountPrunableCertificates(ctx,
		nodedb.CountPrunableCertificatesParams{Before: before, Keep: keep})
	if err != nil {
		return 0, fmt.Errorf("count old certificates of nodes: %w", err)
	}
	return n, nil
}

// Prune deletes a batch of what CountPrunable counts.
func (c Certificates) Prune(ctx context.Context, before time.Time, keep, batch int32) (int64, error) {
	n, err := c.reads.PruneCertificates(ctx,
		nodedb.PruneCertificatesParams{Before: before, Keep: keep, Batch: batch})
	if err != nil {
		return 0, fmt.Errorf("delete old certificates of nodes: %w", err)
	}
	return n, nil
}

// Renewals are the entries in the history of nodes that say that an agent renewed
// its certificate. They say nothing else of the node.
type Renewals struct{ *Service }

// CountPrunable says how many are older than that and not among the newest of their
// node.
func (r Renewals) CountPrunable(ctx context.Context, before time.Time, keep int32) (int64, error) {
	n, err := r.reads.CountPrunableRenewals(ctx, nodedb.CountPrunableRenewalsParams{Before: before, Keep: keep})
	if err != nil {
		return 0, fmt.Errorf("count old renewals of certificates: %w", err)
	}
	return n, nil
}

// Prune deletes a batch of what CountPrunable counts.
func (r Renewals) Prune(ctx context.Context, before time.Time, keep, batch int32) (int64, error) {
	n, err := r.reads.PruneRenewals(ctx, nodedb.PruneRenewalsParams{Before: before, Keep: keep, Batch: batch})
	if err != nil {
		return 0, fmt.Errorf("delete old renewals of certificates: %w", err)
	}
	return n, nil
}
