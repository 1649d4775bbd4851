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

// ScrubMethod is a way to clean the memory of GPUs.
type ScrubMethod string

// The methods, each proving less than the one before.
const (
	MethodOverwrite  ScrubMethod = "overwrite"   // and read back on the GPU
	MethodReset      ScrubMethod = "reset"       // by the tool of the vendor; nothing is read back
	MethodPowerCycle ScrubMethod = "power_cycle" // of the machine, by its BMC; nothing is read back
)

// ScrubMethods lists them in this order.
func ScrubMethods() []ScrubMethod {
	return []ScrubMethod{MethodOverwrite, MethodReset, MethodPowerCycle}
}

// Allows says whether a method will do where this is the weakest that may be used.
func (m ScrubMethod) Allows(method ScrubMethod) bool {
	return slices.Index(ScrubMethods(), method) <= slices.Index(ScrubMethods(), m)
}

// ScrubMethod is the weakest method for GPUs of a vendor, as agents name them, and
// the setting that says so. There is no setting for others.
func (p Policy) ScrubMethod(vendor string) (weakest ScrubMethod, setting string) {
	switch vendor {
	case "nvidia":
		return p.GPUScrubNVIDIA, "gpu_scrub_nvidia"
	case "amd":
		return p.GPUScrubAMD, "gpu_scrub_amd"
	}
	return MethodOverwrite, ""
}

// checkMachines notes what is wrong with what a policy says of machines.
func (p Policy) checkMachines(bad *problems) {
	for field, method := range map[string]ScrubMethod{
		"body.gpu_scrub_nvidia": p.GPUScrubNVIDIA, "body.gpu_scrub_amd": p.GPUScrubAMD,
	} {
		if !slices.Contains(ScrubMethods(), method) {
			bad.add(field, "must be overwrite, reset or power_cycle")
		}
	}
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
