package allocation

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/fleet/sku"
)

// codeNotReady is the code of a node that must not be handed to a tenant.
const codeNotReady = "node_not_ready"

// gate decides whether a node may be handed to a tenant.
type gate struct {
	// withoutGPUs accepts a machine on whose bus there is no GPU, although its SKU
	// has some: a virtual machine.
	withoutGPUs bool
}

// unready says why a node must not be handed to a tenant, by what its agent found;
// zero: it may. An agent of an earlier version tells less: then its checks decide.
func (g gate) unready(output json.RawMessage, terms sku.Terms) Failure {
	var found agentwire.HealthProbeOutput
	if err := json.Unmarshal(output, &found); err != nil {
		return notReady("what the node says about its health cannot be read")
	}
	var bad []string
	for _, c := range found.Checks {
		if c.Status == "failed" {
			bad = append(bad, c.Name+": "+c.Detail)
		}
	}
	if m := found.Machine; m != nil {
		bad = append(bad, g.missing(*m, found.GPUs, terms)...)
		for _, gpu := range found.GPUs {
			if faults := faultsOf(gpu); len(faults) > 0 {
				bad = append(bad, fmt.Sprintf("GPU at %s: %s", gpu.PCIBusID, strings.Join(faults, ", ")))
			}
		}
	}
	switch {
	case len(bad) > 0:
		return notReady("the node is not fit for work: " + strings.Join(bad, "; "))
	case !found.Healthy:
		return notReady("the node calls itself unhealthy, and does not say why")
	}
	return Failure{}
}

func notReady(why string) Failure {
	return Failure{Code: codeNotReady, Reason: why, Remedy: askAgain}
}

// missing is what the machine lacks of what its SKU promises.
func (g gate) missing(m agentwire.MachineHealth, gpus []agentwire.GPUHealth, terms sku.Terms) (out []string) {
	answer := int32(0)
	for _, gpu := range gpus {
		if gpu.Reachable {
			answer++
		}
	}
	virtual := g.withoutGPUs && len(gpus) == 0
	if answer < terms.GPUsTotal && !virtual {
		out = append(out, fmt.Sprintf("%d of %d GPUs answer", answer, terms.GPUsTotal))
	}
	least := terms.Hardware
	if int64(m.Disks) < int64(least.Disks) {
		out = append(out, fmt.Sprintf("it has %d disks instead of %d", m.Disks, least.Disks))
	}
	if int64(m.NICs) < int64(least.NICs) {
		out = append(out, fmt.Sprintf("it has %d network interfaces instead of %d", m.NICs, least.NICs))
	}
	const giB, kernelKeeps = 1 << 30, 16 // the kernel keeps a few hundredths for itself
	if want := int64(least.MemoryGiB) * giB; m.MemoryBytes < want-want/kernelKeeps {
		out = append(out, fmt.Sprintf("it has %d GiB of memory instead of %d", m.MemoryBytes/giB, least.MemoryGiB))
	}
	return out
}

// hardwareXids are the errors of the NVIDIA driver that tell of broken hardware or
// of a GPU that needs a reset. The others come from programs of tenants.
var hardwareXids = []int{48, 61, 62, 64, 74, 79, 92, 95, 119, 120, 140, 143}

// faultsOf are the reasons why a GPU is not fit for work.
func faultsOf(g agentwire.GPUHealth) (out []string) {
	if !g.Reachable {
		return []string{"no driver answers for it"}
	}
	if g.Uncorrected != nil && *g.Uncorrected > 0 {
		out = append(out, fmt.Sprintf("%d uncorrected memory errors", *g.Uncorrected))
	}
	is := func(b *bool, value bool, text string) {
		if b != nil && *b == value {
			out = append(out, text)
		}
	}
	is(g.RowsFailed, true, "broken rows of its memory could not be replaced")
	is(g.RowsPending, true, "rows of its memory wait for a reset to be replaced")
	is(g.Persistence, false, "its persistence mode is off")
	if len(g.Slowdowns) > 0 {
		out = append(out, "it holds itself back: "+strings.Join(g.Slowdowns, ", "))
	}
	for _, code := range g.Xids {
		if slices.Contains(hardwareXids, code) {
			out = append(out, fmt.Sprintf("Xid %d since the machine started", code))
		}
	}
	if g.MIG {
		out = append(out, "it is divided into instances (MIG)")
	}
	if g.Processes > 0 {
		out = append(out, fmt.Sprintf("%d processes use it", g.Processes))
	}
	return out
}
