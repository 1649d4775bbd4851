package node

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/fleet/node/internal/nodedb"
)

// TakeOver passes a hold from one operation to another. The caller must know
// that the first operation has ended. If the first one does not hold the node,
// TakeOver works like Hold.
func TakeOver(ctx context.Context, tx pgx.Tx, node id.Node, from, by, cause string) (Node, error) {
	c := changeIn(tx)
	n, err := c.lockHolds(ctx, node)
	if err != nil {
		return Node{}, err
	}
	if from == "" || n.HeldBy != from {
		return Hold(ctx, tx, node, by, cause)
	}
	if err := n.gone(); err != nil {
		return Node{}, err
	}
	n = n.without(ForOperation, from).with(Holding{Kind: ForOperation, Owner: by, Reason: cause})
	return c.rehold(ctx, n, entry{
		event: "take_over", cause: cause,
		metadata: map[string]any{"held_by": by, "held_before_by": from},
	})
}

// Quarantining says why a node was quarantined.
type Quarantining struct {
	Cause    string
	By       string // the actor
	ByPerson bool   // a person asked for it; the control plane did not find it necessary
}

// historyPage is how many history entries are read at a time.
const historyPage = 100

// LastQuarantined says why a node was last quarantined. The zero value means
// that it never was.
func LastQuarantined(ctx context.Context, tx pgx.Tx, node id.Node) (Quarantining, error) {
	q, page := nodedb.New(tx), nodedb.ListEventsParams{NodeID: node, PageSize: historyPage}
	for {
		rows, err := q.ListEvents(ctx, page)
		if err != nil {
			return Quarantining{}, fmt.Errorf("list history of node: %w", err)
		}
		for _, r := range rows {
			if Status(r.ToStatus) == Quarantined && r.FromStatus != r.ToStatus {
				kind := auth.Kind(r.ActorKind)
				return Quarantining{Cause: r.Cause, By: r.ActorID, ByPerson: kind == auth.KindUser ||
					kind == auth.KindServiceAccount}, nil
			}
		}
		if len(rows) < historyPage {
			return Quarantining{}, nil
		}
		page.Before = &rows[len(rows)-1].Seq
	}
}
