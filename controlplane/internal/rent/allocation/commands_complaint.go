package allocation

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/rent/allocation/internal/allocationdb"
)

// The complaints of one tenant hold this many nodes at once at most: leastHolds, or
// one of holdsPer nodes that it has. Otherwise a tenant could empty the fleet.
const (
	leastHolds = 2
	holdsPer   = 20
)

// complain records what a tenant found wrong with the hardware; nil: nothing. Where
// the tenant could use the node, and has not let go of it yet, the node is held for
// an operator: it is cleaned as always, and does not go back into service before
// somebody has looked at it.
func (s *Service) complain(ctx context.Context, tx pgx.Tx, a Allocation, c *Complaint) error {
	if c == nil {
		return nil
	}
	raw, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("encode complaint: %w", err)
	}
	q := allocationdb.New(tx)
	first, err := q.SetComplaint(ctx, allocationdb.SetComplaintParams{ID: a.ID, Complaint: raw})
	if err != nil {
		return fmt.Errorf("note complaint about allocation %s: %w", a.ID, err)
	}
	if first == 0 {
		return nil
	}
	said, err := q.Complaints(ctx, a.Org)
	if err != nil {
		return fmt.Errorf("count complaints: %w", err)
	}
	_, nodes, err := Holdings{}.Held(ctx, tx, a.Org, id.Project{}, "")
	if err != nil {
		return err
	}
	what := "recorded; the node is not held for it"
	has := a.Status == Active || a.Status == Releasing || a.Status == ReleaseFailed
	switch {
	case a.Times.Active == nil:
		what += ", because nobody could use it"
	case !has:
		what += ", because it was given back already"
	case said.Holding >= max(leastHolds, nodes/holdsPer):
		what += fmt.Sprintf(", because complaints of the tenant hold %d nodes", said.Holding)
	default:
		what = "an operator looks at the node before others get it"
		h := node.Holding{Kind: node.ForComplaint, Owner: a.ID.String()}
		h.Reason = fmt.Sprintf("the tenant of allocation %s complains (%s, %d of this tenant in 30 days): %.300q", a.ID,
			c.Category, said.Lately, c.Text)
		if _, err := node.SetAside(ctx, tx, a.Node, h, "a tenant gave it back with a complaint"); err != nil {
			return err
		}
	}
	return note(ctx, tx, a, "complaint", "its tenant complains about the hardware: "+what,
		map[string]any{"category": c.Category})
}
