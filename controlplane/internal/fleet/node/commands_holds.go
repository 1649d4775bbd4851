package node

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/fleet/node/internal/nodedb"
)

// Hold keeps a node out of scheduling on behalf of an operation, whatever the
// state of the node; by names the operation. If the operation holds the node
// already, nothing changes.
func Hold(ctx context.Context, tx pgx.Tx, node id.Node, by, cause string) (Node, error) {
	if by == "" {
		return Node{}, errors.New("hold node: nobody is named who does")
	}
	c := changeIn(tx)
	n, err := c.lockHolds(ctx, node)
	if err != nil || n.HeldBy == by {
		return n, err
	}
	if err := n.gone(); err != nil {
		return Node{}, err
	}
	if n.HeldBy != "" {
		return Node{}, n.held()
	}
	n = n.with(Holding{Kind: ForOperation, Owner: by, Reason: cause})
	return c.rehold(ctx, n, entry{event: "hold", cause: cause, metadata: map[string]any{"held_by": by}})
}

// Unhold ends the hold of an operation. If the operation does not hold the
// node, nothing changes. A node that could be scheduled afterwards must be
// proven clean: Unhold refuses an active one, and gives an offline one a hold
// reason instead, because that becomes active by itself.
func Unhold(ctx context.Context, tx pgx.Tx, node id.Node, by, cause string) (Node, error) {
	c := changeIn(tx)
	before, err := c.lockHolds(ctx, node)
	if err != nil || by == "" || before.HeldBy != by {
		return before, err
	}
	after := before.without(ForOperation, by)
	if err := mayServe(before, after); err != nil {
		if after.Status != Offline {
			return Node{}, err
		}
		after = after.keptOut()
	}
	return c.rehold(ctx, after, entry{event: "unhold", cause: cause, metadata: map[string]any{"held_by": by}})
}

// SetAside takes a node out of scheduling for a reason of its own, whatever else
// holds it. If it is held for that already, nothing changes. LetBack ends it.
func SetAside(ctx context.Context, tx pgx.Tx, node id.Node, h Holding, cause string) (Node, error) {
	c := changeIn(tx)
	n, err := c.lockHolds(ctx, node)
	if err != nil || n.holding(h.Kind, h.Owner) {
		return n, err
	}
	return c.rehold(ctx, n.with(h), entry{
		event: "set_aside", cause: cause,
		metadata: map[string]any{"kind": h.Kind, "owner": h.Owner, "reason": h.Reason},
	})
}

// LetBack ends what SetAside began, and nothing else that holds the node. A node that
// is not proven clean stays out of scheduling for that.
func LetBack(ctx context.Context, tx pgx.Tx, node id.Node, kind HoldKind, owner, cause string) (Node, error) {
	c := changeIn(tx)
	before, err := c.lockHolds(ctx, node)
	if err != nil || !before.holding(kind, owner) {
		return before, err
	}
	after := before.without(kind, owner)
	if err := mayServe(before, after); err != nil {
		after = after.keptOut()
	}
	return c.rehold(ctx, after, entry{
		event: "let_back", cause: cause, metadata: map[string]any{"kind": kind, "owner": owner},
	})
}

// IsSetAside says whether a node is held for one reason.
func IsSetAside(ctx context.Context, tx pgx.Tx, node id.Node, kind HoldKind, owner string) (bool, error) {
	n, err := changeIn(tx).lockHolds(ctx, node)
	return n.holding(kind, owner), err
}

// AddHold holds a node for an operator, besides whatever else holds it.
func (s *Service) AddHold(ctx context.Context, node id.Node, reason string) (Node, error) {
	err := s.inChange(ctx, func(ctx context.Context, c change) error {
		n, err := c.lockHolds(ctx, node)
		if err != nil {
			return err
		}
		if err := n.gone(); err != nil {
			return err
		}
		if len(n.Holds) >= mostHolds {
			return fault.New(fault.Conflict, "node_holds_many", "node %s is held for %d reasons, which is the most", n.Hostname,
				len(n.Holds)).WithRemedy("take one away that is no reason any more: gpuaas node unhold %s --hold ID", n.Hostname)
		}
		h := Holding{ID: id.New[id.NodeHold](), Kind: ForOperator, Reason: reason}
		h.Owner = h.ID.String()
		_, err = c.rehold(ctx, n.with(h), entry{
			event: "hold_added", cause: reason, metadata: map[string]any{"hold_id": h.ID},
		})
		return err
	})
	if err != nil {
		return Node{}, err
	}
	return s.Node(ctx, node)
}

// LiftHold takes one hold of a node away. It refuses those that end by themselves:
// that of an operation, and that the node is not proven clean.
func (s *Service) LiftHold(ctx context.Context, node id.Node, hold id.NodeHold, reason string) (Node, error) {
	err := s.inChange(ctx, func(ctx context.Context, c change) error {
		before, err := c.lockHolds(ctx, node)
		if err != nil {
			return err
		}
		at := slices.IndexFunc(before.Holds, func(h Holding) bool { return h.ID == hold })
		if at < 0 {
			return fault.New(fault.NotFound, "node_hold_not_found", "node %s has no such hold", before.Hostname).
				WithRemedy("see what holds it: gpuaas node show %s", before.Hostname)
		}
		h := before.Holds[at]
		if err := before.liftable(h); err != nil {
			return err
		}
		after := before.without(h.Kind, h.Owner)
		if err := mayServe(before, after); err != nil {
			return err
		}
		if err := c.settle(ctx, before, after); err != nil {
			return err
		}
		_, err = c.rehold(ctx, after, entry{event: "hold_lifted", cause: reason, metadata: map[string]any{
			"hold_id": h.ID, "kind": h.Kind, "owner": h.Owner, "held_because": h.Reason,
		}})
		return err
	})
	if err != nil {
		return Node{}, err
	}
	return s.Node(ctx, node)
}

// settle ends a conflict about the identity of a node with the hold that is for it,
// and with the last one of all.
func (c change) settle(ctx context.Context, before, after Node) error {
	ended := before.holding(ForIdentity, "") && !after.holding(ForIdentity, "")
	if !ended && (before.HoldReason == "" || after.HoldReason != "") {
		return nil
	}
	if err := c.ForgetConflict(ctx, before.ID); err != nil {
		return fmt.Errorf("forget identity conflict: %w", err)
	}
	return nil
}

// rehold writes the holds of a node, and whether it is schedulable with them.
func (c change) rehold(ctx context.Context, n Node, e entry) (Node, error) {
	after, err := c.setHolds(ctx, n)
	if err != nil {
		return Node{}, err
	}
	return after, c.noted(ctx, after, e)
}

func (c change) setHolds(ctx context.Context, n Node) (Node, error) {
	held, err := c.keepHolds(ctx, n)
	if err != nil {
		return Node{}, err
	}
	row, err := c.SetHolds(ctx, nodedb.SetHoldsParams{
		ID: n.ID, HoldReason: n.HoldReason, HeldUnclean: n.HeldUnclean,
		HeldBy: n.HeldBy, Schedulable: n.placeable(),
	})
	if err != nil {
		return Node{}, fmt.Errorf("note what holds node: %w", err)
	}
	after := nodeFrom(row)
	after.Holds = held
	return after, nil
}

// keepHolds makes the stored holds of a node those that it has now.
func (c change) keepHolds(ctx context.Context, n Node) ([]Holding, error) {
	held, stay := slices.Clone(n.Holds), []string{}
	for _, h := range held {
		if !h.Since.IsZero() {
			stay = append(stay, h.ID.String())
		}
	}
	if err := c.DropHolds(ctx, nodedb.DropHoldsParams{NodeID: n.ID, Stay: stay}); err != nil {
		return nil, fmt.Errorf("take holds of node away: %w", err)
	}
	who := auth.From(ctx)
	for i, h := range held {
		if !h.Since.IsZero() {
			continue
		}
		if h.ID.IsZero() {
			h.ID = id.New[id.NodeHold]()
		}
		row, err := c.InsertHold(ctx, nodedb.InsertHoldParams{
			ID: h.ID, NodeID: n.ID, Kind: string(h.Kind), Owner: h.Owner, Reason: h.Reason, HeldBy: who.ID, HeldByName: who.Name,
		})
		if err != nil {
			return nil, fmt.Errorf("note hold of node: %w", err)
		}
		held[i] = holdFrom(row)
	}
	return held, nil
}

// noted records a change that does not change the state.
func (c change) noted(ctx context.Context, n Node, e entry) error {
	e.kind, e.action, e.tell = KindUpdated, "node."+e.event, eventwire.NodeUpdated
	return c.record(ctx, n, e)
}
