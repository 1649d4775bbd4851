package node

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/fleet/node/internal/nodedb"
)

// TakeOver holds a node that another operation holds, which has ended and left
// it so; that it has is the caller's to know. A node that it does not hold is
// held as Hold does.
func TakeOver(ctx context.Context, tx pgx.Tx, node id.Node, from, by, cause string) (Node, error) {
	c := changeIn(tx)
	n, err := c.lock(ctx, node)
	if err != nil {
		return Node{}, err
	}
	if from == "" || n.HeldBy != from {
		return Hold(ctx, tx, node, by, cause)
	}
	if err := n.gone(); err != nil {
		return Node{}, err
	}
	n.HeldBy = by
	return c.rehold(ctx, n, entry{event: "take_over", cause: cause, metadata: map[string]any{"held_by": by, "held_before_by": from}})
}

// Quarantining is why a node was quarantined.
type Quarantining struct {
	Cause    string
	By       string // the actor
	ByPerson bool   // somebody asked for it, and nothing of the control plane found it necessary
}

// historyPage is how much of a history is looked through at a time.
const historyPage = 100

// LastQuarantined says why a node was last quarantined; the zero value: it never
// was.
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
				return Quarantining{Cause: r.Cause, By: r.ActorID, ByPerson: kind == auth.KindUser || kind == auth.KindServiceAccount}, nil
			}
		}
		if len(rows) < historyPage {
			return Quarantining{}, nil
		}
		page.Before = &rows[len(rows)-1].Seq
	}
}
