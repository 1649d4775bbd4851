package site

import "slices"

// DataDisks is what becomes of the disks of a machine that do not carry the system.
type DataDisks string

// The policies for data disks.
const (
	DisksLeave        DataDisks = "leave"
	DisksInitialize   DataDisks = "initialize"    // DESTROYS what is on them, at the first boot
	DisksRequireClean DataDisks = "require_clean" // a machine with data on them does not become a node
)

// RetiredMachines is what reconciliation does with the deployed machine of a
// retired node.
type RetiredMachines string

// The policies for machines of retired nodes.
const (
	RetiredLeave    RetiredMachines = "leave"
	RetiredPowerOff RetiredMachines = "power_off"
	RetiredRelease  RetiredMachines = "release" // DESTROYS what is on it
)

// checkMachines notes what is wrong with what a policy says of machines.
func (p Policy) checkMachines(bad *problems) {
	if !slices.Contains([]DataDisks{DisksLeave, DisksInitialize, DisksRequireClean}, p.DataDisks) {
		bad.add("body.data_disks", "must be leave, initialize or require_clean")
	}
	if !slices.Contains([]RetiredMachines{RetiredLeave, RetiredPowerOff, RetiredRelease}, p.RetiredMachines) {
		bad.add("body.retired_machines", "must be leave, power_off or release")
	}
}

// retiring settles what a change says of machines of retired nodes in the old words
// and in the new.
func (ch PolicyChange) retiring(p *Policy) {
	switch {
	case ch.RetiredMachines != nil:
	case ch.ReleaseRetiredMachines != nil && *ch.ReleaseRetiredMachines:
		p.RetiredMachines = RetiredRelease
	case ch.ReleaseRetiredMachines != nil && p.RetiredMachines == RetiredRelease:
		p.RetiredMachines = RetiredLeave
	}
	p.ReleaseRetiredMachines = p.RetiredMachines == RetiredRelease
}
