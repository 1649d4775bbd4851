package allocation

import (
	"fmt"
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/node"
)

// Repair is a time in which the node of an allocation is repaired while its tenant
// keeps it. It is a condition and no state: the allocation stays active.
type Repair struct {
	ID          id.Repair
	Allocation  id.Allocation
	Node        id.Node
	Maintenance id.Maintenance // zero: it was not announced
	Reason      string         // for the tenant
	BeganAt     time.Time
	EndedAt     *time.Time // nil: it goes on
	Because     string     // why it ended
}

// Announced is maintenance that its tenant was told of and that has not ended.
type Announced struct {
	ID           id.Maintenance
	Status       string
	Kind         string
	ConsentAsked bool
	NotBefore    time.Time
	DueAt        time.Time
	Reason       string
	MayBegin     bool // it may be carried out now
}

// Conditions are what holds of an allocation besides its state.
type Conditions struct {
	Repair    *Repair    // nil: its node is not being repaired
	Announced *Announced // nil: nothing is announced
}

// heldForRepair is why a node stays out of scheduling while it is repaired, and
// afterwards where its tenant left meanwhile.
func heldForRepair(of id.Allocation) node.Holding {
	return node.Holding{
		Kind: node.ForRepair, Owner: of.String(), Reason: fmt.Sprintf("the node of allocation %s is being repaired", of),
	}
}

// HeldForMaintenance is why a node stays out of scheduling whose tenant left it for
// announced maintenance, until that is finished.
func HeldForMaintenance(of id.Maintenance) node.Holding {
	return node.Holding{Kind: node.ForMaintenance, Owner: of.String(), Reason: "announced maintenance " + of.String()}
}

// interrupted refuses what needs the node while it is repaired.
func (r Repair) interrupted(a Allocation) error {
	return fault.New(fault.Conflict, "allocation_repairing", "the node of allocation %s is being repaired since %s: %s",
		a.called(), r.BeganAt.UTC().Format(time.RFC3339), r.Reason).
		WithRemedy("wait until it is done, which the event allocation.repair_ended tells; or release the allocation")
}
