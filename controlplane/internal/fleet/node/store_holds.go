package node

import (
	"context"
	"fmt"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/node/internal/nodedb"
)

func holdFrom(r nodedb.NodeHold) Holding {
	return Holding{
		ID: r.ID, Kind: HoldKind(r.Kind), Owner: r.Owner, Reason: r.Reason, Since: r.HeldAt,
		By: r.HeldBy, ByName: r.HeldByName,
	}
}

// lockHolds is lock with what holds the node. It reads that after the lock, so that
// nobody changes it meanwhile.
func (c change) lockHolds(ctx context.Context, node id.Node) (Node, error) {
	n, err := c.lock(ctx, node)
	if err != nil {
		return n, err
	}
	one := []Node{n}
	err = readHolds(ctx, c.Queries, one)
	return one[0], err
}

// readHolds adds to nodes what holds them, one by one.
func readHolds(ctx context.Context, q *nodedb.Queries, nodes []Node) error {
	var ids []string
	for _, n := range nodes {
		if n.OnHold() {
			ids = append(ids, n.ID.String())
		}
	}
	if len(ids) == 0 {
		return nil
	}
	rows, err := q.Holds(ctx, ids)
	if err != nil {
		return fmt.Errorf("read holds of nodes: %w", err)
	}
	held := map[id.Node][]Holding{}
	for _, r := range rows {
		held[r.NodeID] = append(held[r.NodeID], holdFrom(r))
	}
	for i, n := range nodes {
		if n.OnHold() {
			nodes[i].Holds = n.agreeing(held[n.ID])
		}
	}
	return nil
}
