// Package gpu tells the agent which GPUs its host has, and overwrites their
// memory. The program gpuaas-gpu does the work: a driver library that crashes
// or hangs takes that program down, not the agent.
package gpu

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Vendor is the maker of the GPUs of a host.
type Vendor string

// The known vendors. None says that there is no GPU.
const (
	NVIDIA Vendor = "nvidia"
	AMD    Vendor = "amd"
	None   Vendor = "none"
)

// Report says which GPUs a host has.
type Report struct {
	Type         string   `json:"type"`
	Vendor       Vendor   `json:"vendor"`
	Driver       string   `json:"driver"`
	DriverSeries string   `json:"driver_series"`
	GPUs         []GPU    `json:"gpus"`
	Unreachable  []string `json:"unreachable"` // PCI addresses of GPUs that no driver answers for
	Notes        []string `json:"notes"`
}

// GPU is one GPU as its driver describes it.
type GPU struct {
	Index        int       `json:"index"`
	UUID         string    `json:"uuid"`
	Name         string    `json:"name"`
	Architecture string    `json:"architecture"`
	PCI          string    `json:"pci_bus_id"`
	MemoryTotal  uint64    `json:"memory_total_bytes"`
	MemoryUsed   uint64    `json:"memory_used_bytes"`
	Processes    []Process `json:"processes"`
	ECC          *ECC      `json:"ecc_errors,omitempty"`
	MIG          bool      `json:"mig,omitempty"`
	Remap        *Remap    `json:"row_remap,omitempty"`
	Slowdowns    []string  `json:"slowdowns,omitempty"`
	Persistence  *bool     `json:"persistence,omitempty"` // nil if the driver does not say
}

// Remap says how a GPU stands that replaces broken rows of its memory.
type Remap struct {
	Pending bool `json:"pending"` // rows are replaced with the next reset
	Failed  bool `json:"failed"`  // rows could not be replaced
}

// Process is one process that uses a GPU.
type Process struct {
	PID  int     `json:"pid"`
	Used *uint64 `json:"used_bytes,omitempty"` // nil if the driver withholds it
	Kind string  `json:"kind"`
}

// ECC is the number of memory errors since the driver was loaded.
type ECC struct {
	Corrected   uint64 `json:"corrected"`
	Uncorrected uint64 `json:"uncorrected"`
}

// Capabilities returns the report in the terms of the fleet's inventory.
func (r Report) Capabilities() map[string]string {
	out := map[string]string{
		"gpu.vendor": string(r.Vendor), "gpu.architecture": "none", "gpu.driver_series": "none",
		"compute.runtime": "none",
	}
	var architectures []string
	for _, g := range r.GPUs {
		if g.Architecture != "" && !slices.Contains(architectures, g.Architecture) {
			architectures = append(architectures, g.Architecture)
		}
	}
	slices.Sort(architectures)
	if len(architectures) > 0 {
		out["gpu.architecture"] = strings.Join(architectures, ",")
	}
	if r.DriverSeries != "" {
		out["gpu.driver_series"] = r.DriverSeries
	}
	switch {
	case r.Vendor == NVIDIA && len(r.GPUs) > 0:
		out["compute.runtime"] = "cuda"
	case r.Vendor == AMD && len(architectures) > 0: // the compute driver knows it
		out["compute.runtime"] = "rocm"
	}
	return out
}

// Processes lists the processes on all GPUs, each once.
func (r Report) Processes() []Process {
	var out []Process
	for _, g := range r.GPUs {
		for _, p := range g.Processes {
			if !slices.ContainsFunc(out, func(o Process) bool { return o.PID == p.PID }) {
				out = append(out, p)
			}
		}
	}
	return out
}

// identifier matches what names a GPU on a command line: the driver's UUID, the
// chip's number or a PCI address, and never an option.
var identifier = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9:.-]{0,63}$`)

func (r Report) validate() error {
	if r.Type != "report" {
		return fmt.Errorf("type %q is not a report", r.Type)
	}
	if err := r.Vendor.validate(); err != nil {
		return err
	}
	if r.Vendor == None && (len(r.GPUs) > 0 || len(r.Unreachable) > 0) {
		return fmt.Errorf("%d GPUs of no vendor", len(r.GPUs)+len(r.Unreachable))
	}
	for _, g := range r.GPUs {
		if !identifier.MatchString(g.UUID) {
			return fmt.Errorf("GPU %d has a malformed UUID", g.Index)
		}
		if g.Index < 0 || g.MemoryUsed > g.MemoryTotal {
			return fmt.Errorf("GPU %s has impossible figures", g.UUID)
		}
		for _, p := range g.Processes {
			if p.PID <= 0 {
				return fmt.Errorf("GPU %s has a process of id %d", g.UUID, p.PID)
			}
		}
	}
	return nil
}

func (v Vendor) validate() error {
	switch v {
	case NVIDIA, AMD, None:
		return nil
	default:
		return fmt.Errorf("vendor %q is unknown", string(v))
	}
}
