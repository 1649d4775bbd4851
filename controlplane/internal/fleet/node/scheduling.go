package node

import "gpuaas/controlplane/internal/base/fault"

// Tainted reports whether a tenant had access to the node, or it was found
// unclean, since it was last proven clean. The query ListNodes implements the
// same rule in SQL.
func (n Node) Tainted() bool {
	return n.TaintedAt != nil && (n.CleanAt == nil || !n.CleanAt.After(*n.TaintedAt))
}

// OnHold reports whether an operator or an operation keeps the node out of
// scheduling, whatever its state. The query ListNodes implements the same rule
// in SQL.
func (n Node) OnHold() bool { return n.HoldReason != "" || n.HeldBy != "" }

// inService reports whether the node would be schedulable as soon as its agent
// is in contact.
func (n Node) inService() bool {
	return n.Status.Is(Serving) && !n.OnHold()
}

// placeable decides whether a node is schedulable. No other code does.
func (n Node) placeable() bool { return n.Status == Active && n.inService() }

// unclean is the hold reason of a node that became schedulable by an event that
// could not be refused. A clean validation removes it.
const unclean = "not proven clean since a tenant had access"

// keptOut returns the node held because it is not proven clean.
func (n Node) keptOut() Node { return n.with(Holding{Kind: ForUnclean, Reason: unclean}) }

// mayServe refuses to put a node into service that is not proven clean. A node
// in service stays there when a tenant gets access, which is its purpose, and
// also when it loses and regains contact.
func mayServe(before, after Node) error {
	if before.inService() || !after.inService() || after.Access() == NoAccess {
		return nil
	}
	return after.notClean()
}

// notClean refuses what would let a node be scheduled that is not proven clean.
func (n Node) notClean() error {
	if err := n.Incredible(); err != nil {
		return err
	}
	return fault.New(fault.Conflict, "node_tainted", "node %s would be scheduled again, but it is %s", n.Hostname,
		unclean).
		WithRemedy("clean it and prove it: gpuaas node reset %s", n.Hostname)
}

// held returns the fault that names the operation which holds the node.
func (n Node) held() error {
	return fault.New(fault.Conflict, "node_held", "node %s is held by %s", n.Hostname, n.HeldBy).
		WithRemedy("let that end first; how the node stands: gpuaas node show %s", n.Hostname)
}

// Unheld refuses a node that an operation holds.
func (n Node) Unheld() error {
	if n.HeldBy == "" {
		return nil
	}
	return n.held()
}

// unowned refuses plain actions while an operation works on the node: only the
// operation knows in which state it may leave the node.
func (n Node) unowned() error {
	owner := n.HeldBy
	switch {
	case owner != "":
	case n.Status == Draining:
		owner = "the operation that drains it"
	case n.Status == Removing:
		owner = "the operation that removes it"
	case n.Status.Is(Owned):
		owner = "an operation"
	default:
		return nil
	}
	return fault.New(fault.Conflict, "node_owned", "node %s is %s and belongs to %s", n.Hostname, n.Status, owner).
		WithRemedy("let that end, or cancel it; how the node stands: gpuaas node show %s", n.Hostname)
}

func (n Node) gone() error {
	if n.Status != Deleted {
		return nil
	}
	return fault.New(fault.Conflict, "node_deleted",
		"the node is deleted: only its history is left").WithRemedy("add the machine again as a new node")
}
