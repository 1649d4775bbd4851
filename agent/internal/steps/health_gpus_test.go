package steps

import (
	"errors"
	"slices"
	"testing"

	"gpuaas/agent/internal/gpu"
)

// What decides whether a tenant may have the machine is told per GPU.
func TestHealthOfEachGPU(t *testing.T) {
	b := newBench(t)
	on := true
	b.gpu.report = gpu.Report{
		Vendor: gpu.NVIDIA, Unreachable: []string{"0000:1b:00.0"},
		GPUs: []gpu.GPU{
			{
				UUID: "GPU-1", Name: "NVIDIA H200", PCI: "0000:18:00.0", MemoryTotal: 1 << 37, ECC: &gpu.ECC{Uncorrected: 3},
				Remap: &gpu.Remap{Pending: true}, Slowdowns: []string{"hw_thermal_slowdown"}, Persistence: &on, MIG: true,
				Processes: []gpu.Process{{PID: 7}},
			},
			{UUID: "GPU-2", Name: "NVIDIA H200", PCI: "0000:19:00.0"},
		},
	}
	b.Write("/dev/kmsg", "6,1,0,-;NVRM: Xid (PCI:0000:18:00): 63, row remapping\n"+
		"6,2,0,-;NVRM: Xid (PCI:0000:1B:00): 79, GPU has fallen off the bus.\n"+
		"6,3,0,-;NVRM: Xid (PCI:0000:18:00): 63, again\n")
	out, _ := probed(b)
	if len(out.GPUs) != 3 || out.Machine == nil || out.Machine.GPUVendor != "nvidia" {
		t.Fatalf("%+v, %+v", out.GPUs, out.Machine)
	}
	worn, fine, lost := out.GPUs[0], out.GPUs[1], out.GPUs[2]
	if !worn.Reachable || *worn.Uncorrected != 3 || !*worn.RowsPending || *worn.RowsFailed || !*worn.Persistence ||
		!worn.MIG || worn.Processes != 1 || !slices.Equal(worn.Slowdowns, []string{"hw_thermal_slowdown"}) ||
		!slices.Equal(worn.Xids, []int{63}) {
		t.Errorf("worn: %+v", worn)
	}
	if !fine.Reachable || fine.Uncorrected != nil || fine.RowsPending != nil || fine.Persistence != nil ||
		fine.Xids != nil {
		t.Errorf("fine: %+v", fine)
	}
	if lost.Reachable || lost.PCIBusID != "0000:1b:00.0" || !slices.Equal(lost.Xids, []int{79}) {
		t.Errorf("lost: %+v", lost)
	}
}

// A helper that does not answer is not a machine without GPUs.
func TestHealthOfUnknownGPUs(t *testing.T) {
	b := newBench(t)
	b.gpu.inspectErr = errors.New("crashed")
	if out, _ := probed(b); out.GPUs != nil || out.Machine != nil || out.Healthy {
		t.Errorf("%+v", out)
	}
}
