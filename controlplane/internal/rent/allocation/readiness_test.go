package allocation

import (
	"encoding/json"
	"strings"
	"testing"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/fleet/sku"
)

type probe = agentwire.HealthProbeOutput

func fit() agentwire.HealthProbeOutput {
	none, no, on := int64(0), false, true
	out := agentwire.HealthProbeOutput{
		Healthy: true, Checks: []agentwire.HealthCheck{{Name: "units", Status: "warning", Detail: "one failed"}},
		Machine: &agentwire.MachineHealth{GPUVendor: "nvidia", MemoryBytes: 1980 << 30, Disks: 10, NICs: 10},
	}
	for _, pci := range []string{"0000:18:00.0", "0000:19:00.0"} {
		out.GPUs = append(out.GPUs, agentwire.GPUHealth{
			UUID: "GPU-" + pci, PCIBusID: pci, Reachable: true, Uncorrected: &none, RowsPending: &no, RowsFailed: &no,
			Persistence: &on, Xids: []int{13, 31, 43},
		})
	}
	return out
}

// A node is handed over exactly when nothing that its agent found speaks against
// it, and what speaks against it is named.
func TestReadinessOfNodes(t *testing.T) {
	terms := sku.Terms{GPUsTotal: 2, Hardware: sku.Hardware{MemoryGiB: 2048, Disks: 10, NICs: 10}}
	one, yes, no := int64(1), true, false
	for name, c := range map[string]struct {
		change  func(*probe)
		virtual bool
		says    string // empty: ready
	}{
		"fit":            {change: func(*probe) {}},
		"what is not on": {change: func(o *probe) { o.GPUs[0].Uncorrected, o.GPUs[0].Persistence = nil, nil }},
		"an earlier agent": {change: func(o *probe) {
			o.GPUs, o.Machine = nil, nil
		}},
		"unhealthy": {change: func(o *probe) { o.Healthy = false }, says: "does not say why"},
		"a failed check": {change: func(o *probe) {
			o.Healthy = false
			o.Checks = append(o.Checks, agentwire.HealthCheck{Name: "memory", Status: "failed", Detail: "99 %"})
		}, says: "memory: 99 %"},
		"a GPU is gone": {change: func(o *probe) { o.GPUs = o.GPUs[:1] }, says: "1 of 2 GPUs"},
		"a GPU without driver": {change: func(o *probe) {
			o.GPUs[1] = agentwire.GPUHealth{PCIBusID: "0000:19:00.0"}
		}, says: "GPU at 0000:19:00.0: no driver answers"},
		"no GPU":            {change: func(o *probe) { o.GPUs = nil }, says: "0 of 2 GPUs"},
		"a virtual machine": {change: func(o *probe) { o.GPUs = nil }, virtual: true},
		"one is gone there": {change: func(o *probe) { o.GPUs = o.GPUs[:1] }, virtual: true, says: "1 of 2"},
		"memory errors":     {change: func(o *probe) { o.GPUs[0].Uncorrected = &one }, says: "1 uncorrected"},
		"rows pending":      {change: func(o *probe) { o.GPUs[0].RowsPending = &yes }, says: "wait for a reset"},
		"rows failed":       {change: func(o *probe) { o.GPUs[0].RowsFailed = &yes }, says: "not be replaced"},
		"no persistence":    {change: func(o *probe) { o.GPUs[0].Persistence = &no }, says: "persistence"},
		"hot":               {change: func(o *probe) { o.GPUs[0].Slowdowns = []string{"hw_slowdown"} }, says: "hw_slowdown"},
		"off the bus":       {change: func(o *probe) { o.GPUs[0].Xids = []int{31, 79} }, says: "Xid 79"},
		"divided":           {change: func(o *probe) { o.GPUs[0].MIG = true }, says: "MIG"},
		"in use":            {change: func(o *probe) { o.GPUs[0].Processes = 3 }, says: "3 processes"},
		"a disk is gone":    {change: func(o *probe) { o.Machine.Disks = 9 }, says: "9 disks instead of 10"},
		"an interface":      {change: func(o *probe) { o.Machine.NICs = 1 }, says: "1 network interfaces"},
		"memory is gone":    {change: func(o *probe) { o.Machine.MemoryBytes /= 2 }, says: "990 GiB"},
	} {
		t.Run(name, func(t *testing.T) {
			o := fit()
			c.change(&o)
			raw, err := json.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			got := gate{withoutGPUs: c.virtual}.unready(raw, terms)
			if ready := got == (Failure{}); ready != (c.says == "") || !strings.Contains(got.Reason, c.says) {
				t.Errorf("%+v, want %q", got, c.says)
			}
			if c.says != "" && (got.Code != codeNotReady || got.Remedy == "") {
				t.Errorf("%+v", got)
			}
		})
	}
	if got := (gate{}).unready([]byte(`[]`), terms); got.Code != codeNotReady {
		t.Errorf("an output that nobody can read: %+v", got)
	}
}
