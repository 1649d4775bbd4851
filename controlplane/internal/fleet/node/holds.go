package node

import (
	"slices"
	"strings"
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
)

// HoldKind says for what a node is held, and so what ends the hold.
type HoldKind string

// The kinds of holds.
const (
	ForOperator    HoldKind = "operator"    // an operator gave a reason
	ForOperation   HoldKind = "operation"   // an operation works on it; at most one does
	ForRepair      HoldKind = "repair"      // it is repaired while a tenant has it
	ForComplaint   HoldKind = "complaint"   // a tenant gave it back with a complaint
	ForMaintenance HoldKind = "maintenance" // its tenant left it for announced maintenance, or its agent is worked on
	ForDrift       HoldKind = "drift"       // reconciliation found that its machine is gone
	ForIdentity    HoldKind = "identity"    // two machines or processes claim to be it
	ForUnclean     HoldKind = "unclean"     // a tenant had access since it was last proven clean
)

// holdKinds lists them for the contract.
var holdKinds = []HoldKind{
	ForOperator, ForOperation, ForRepair, ForComplaint, ForMaintenance, ForDrift, ForIdentity, ForUnclean,
}

// Holding is one thing that keeps a node out of scheduling.
type Holding struct {
	ID     id.NodeHold
	Kind   HoldKind
	Owner  string // what it belongs to; empty: the node has one of this kind
	Reason string
	Since  time.Time // zero: it is not stored yet
	By     string    // who set it; empty: nobody knows any more
	ByName string
}

// mostHolds limits what operators put on one node. mostReason is how long what sums
// holds up may be.
const (
	mostHolds  = 20
	mostReason = 500
)

func (h Holding) is(kind HoldKind, owner string) bool { return h.Kind == kind && h.Owner == owner }

// holding looks for a hold of the node.
func (n Node) holding(kind HoldKind, owner string) bool {
	return slices.ContainsFunc(n.Holds, func(h Holding) bool { return h.is(kind, owner) })
}

// with returns the node with one more hold, and without returns it without one.
// Nothing else changes what holds a node. Holds must have been read.
func (n Node) with(h Holding) Node {
	n.Holds = append(slices.Clone(n.Holds), h)
	return n.summed()
}

func (n Node) without(kind HoldKind, owner string) Node {
	n.Holds = slices.DeleteFunc(slices.Clone(n.Holds), func(h Holding) bool { return h.is(kind, owner) })
	return n.summed()
}

// summed writes down in the node itself what its holds come to: that is what
// placement and all counts go by.
func (n Node) summed() Node {
	n.HeldBy, n.HeldUnclean = "", false
	var reasons []string
	for _, h := range n.Holds {
		if h.Kind == ForOperation {
			n.HeldBy = h.Owner
			continue
		}
		n.HeldUnclean = h.Kind == ForUnclean && len(reasons) == 0
		reasons = append(reasons, h.Reason)
	}
	n.HoldReason = strings.Join(reasons, "; ")
	if cut := []rune(n.HoldReason); len(cut) > mostReason {
		n.HoldReason = string(cut[:mostReason-1]) + "…"
	}
	n.Schedulable = n.placeable()
	return n
}

// agreeing returns the holds of a node as its row has them. A replica of the release
// before knows only the row: what it set has no hold of its own yet, and what it
// lifted is lifted.
func (n Node) agreeing(stored []Holding) []Holding {
	held := slices.DeleteFunc(stored, func(h Holding) bool {
		if h.Kind == ForOperation {
			return h.Owner != n.HeldBy
		}
		return n.HoldReason == ""
	})
	if n.HeldBy != "" && !slices.ContainsFunc(held, func(h Holding) bool { return h.Kind == ForOperation }) {
		held = append(held, Holding{Kind: ForOperation, Owner: n.HeldBy, Reason: "held by " + n.HeldBy})
	}
	if n.HoldReason != "" && !slices.ContainsFunc(held, func(h Holding) bool { return h.Kind != ForOperation }) {
		kind := ForOperator
		if n.HeldUnclean {
			kind = ForUnclean
		}
		held = append(held, Holding{Kind: kind, Reason: n.HoldReason})
	}
	return held
}

// lifted returns the node without the one hold that an operator can mean who does not
// say which. That it is not clean ends by itself, and the operation that works on it
// lets go of it itself.
func (n Node) lifted() (Node, error) {
	var meant []Holding
	for _, h := range n.Holds {
		if h.Kind != ForOperation && h.Kind != ForUnclean {
			meant = append(meant, h)
		}
	}
	switch len(meant) {
	case 0:
		if unclean := (Holding{Kind: ForUnclean}); n.holding(unclean.Kind, unclean.Owner) {
			return n.without(unclean.Kind, unclean.Owner), n.liftable(unclean)
		}
		return n, nil
	case 1:
		return n.without(meant[0].Kind, meant[0].Owner), nil
	}
	names := make([]string, len(meant))
	for i, h := range meant {
		names[i] = string(h.Kind) + " " + h.ID.String()
	}
	return n, fault.New(fault.Conflict, "node_holds_several", "node %s is held for %d reasons (%s); say which one ends",
		n.Hostname, len(meant), strings.Join(names, ", ")).
		WithRemedy("see them: gpuaas node show %s; then: gpuaas node unhold %s --hold ID", n.Hostname,
			n.Hostname)
}

// liftable refuses to take a hold away that ends by itself.
func (n Node) liftable(h Holding) error {
	switch {
	case h.Kind == ForOperation:
		return n.held()
	case h.Kind == ForUnclean && n.Access() != NoAccess:
		return n.notClean()
	}
	return nil
}
