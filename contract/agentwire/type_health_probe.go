package agentwire

import (
	"time"
)

// TypeHealthProbe looks at the health of a machine.
const TypeHealthProbe = "diag.health_probe"

var _ = declare[HealthProbeParams, HealthProbeOutput](Spec{
	Type: TypeHealthProbe, Title: "look at the health of the machine",
	Class: ClassConcurrent, Window: 5 * time.Minute, Patience: 15 * time.Minute, Attempts: 2,
	Sound: []string{`{}`},
})

// HealthProbeParams asks for all checks.
type HealthProbeParams struct{}

// Validate implements Params.
func (HealthProbeParams) Validate() error { return nil }

// HealthProbeOutput lists the checks.
type HealthProbeOutput struct {
	Healthy bool          `json:"healthy"`
	Checks  []HealthCheck `json:"checks"`
	// GPUs is each GPU on the bus of the machine.
	GPUs []GPUHealth `json:"gpus,omitempty"`
	// Machine is what else the machine has. If it is nil, nothing is known of the
	// GPUs either: the agent is too old to say, or its helper does not answer.
	Machine *MachineHealth `json:"machine,omitempty"`
}

// GPUHealth is one GPU of the machine. What is nil, the driver does not say.
type GPUHealth struct {
	UUID        string `json:"uuid,omitempty"`
	Name        string `json:"name,omitempty"`
	PCIBusID    string `json:"pci_bus_id"`
	Reachable   bool   `json:"reachable"` // false: it is on the bus, and no driver answers for it
	MemoryBytes int64  `json:"memory_bytes,omitempty"`
	Uncorrected *int64 `json:"ecc_uncorrected,omitempty"` // memory errors since the driver was loaded
	RowsPending *bool  `json:"row_remap_pending,omitempty"`
	RowsFailed  *bool  `json:"row_remap_failed,omitempty"`
	// Slowdowns are why the GPU holds itself back, as far as that tells of a fault:
	// hw_slowdown, sw_thermal_slowdown, hw_thermal_slowdown, hw_power_brake.
	Slowdowns   []string `json:"slowdowns,omitempty"`
	Xids        []int    `json:"xids,omitempty"` // errors in the kernel's log since the machine started
	Persistence *bool    `json:"persistence,omitempty"`
	MIG         bool     `json:"mig"`
	Processes   int      `json:"processes"` // that use it
}

// MachineHealth is what a machine has besides its GPUs.
type MachineHealth struct {
	GPUVendor   string `json:"gpu_vendor"` // none: there is no GPU on its bus
	MemoryBytes int64  `json:"memory_bytes"`
	Disks       int    `json:"disks"`
	NICs        int    `json:"nics"`
}

// HealthCheck is one look at the machine.
type HealthCheck struct {
	Name   string `json:"name"`
	Status string `json:"status"` // ok, warning, failed, not_applicable
	Detail string `json:"detail"`
}
