package main

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"gpuaas/cmd/gpuaas-gpu/internal/dl"
	"gpuaas/cmd/gpuaas-gpu/internal/nvml"
	"gpuaas/cmd/gpuaas-gpu/internal/sysfs"
)

// nvidia is what inspect and scrub ask of the management library.
type nvidia interface {
	Driver() (string, error)
	GPUs() ([]nvml.GPU, error)
	Processes(index int) ([]nvml.Process, error)
}

// host is the machine that is looked at.
type host struct {
	sys fs.FS // /sys
	// container says that the kernel shows the devices of the machine around
	// the container, which are not this host's.
	container bool
	// nvidia is nil if nvidiaErr says why.
	nvidia    nvidia
	nvidiaErr error
}

func (h host) inspect() report {
	r := report{Type: "report", Vendor: vendorNone, GPUs: []gpu{}, Unreachable: []string{}, Notes: []string{}}
	h.inspectNVIDIA(&r)
	if !h.container {
		h.inspectAMD(&r)
	}
	h.findUnreachable(&r)
	if r.Vendor == vendorNone {
		r.Notes = append(r.Notes, "no GPU of a known vendor on this host")
	}
	return r
}

func (h host) inspectNVIDIA(r *report) {
	if h.nvidia == nil {
		note := fmt.Sprintf("NVIDIA: %v", h.nvidiaErr)
		if errors.Is(h.nvidiaErr, dl.ErrNoLibrary) {
			note = "NVIDIA: no management library on this host"
		}
		r.Notes = append(r.Notes, note)
		return
	}
	driver, err := h.nvidia.Driver()
	if err != nil {
		r.Notes = append(r.Notes, fmt.Sprintf("NVIDIA: read driver version: %v", err))
	}
	gpus, err := h.nvidia.GPUs()
	if err != nil {
		r.Notes = append(r.Notes, fmt.Sprintf("NVIDIA: %v", err))
	}
	if len(gpus) == 0 {
		r.Notes = append(r.Notes, "NVIDIA: the driver shows no GPU")
		return
	}
	r.Vendor, r.Driver, r.DriverSeries = vendorNVIDIA, driver, series(driver)
	for _, g := range gpus {
		out := gpu{
			Index: g.Index, UUID: g.UUID, Name: g.Name, Architecture: g.Architecture, PCI: g.PCI,
			MemoryTotal: g.MemoryTotal, MemoryUsed: g.MemoryUsed, usedIsExact: g.UsedIsExact, MIG: g.MIG, Processes: []process{},
		}
		for _, p := range g.Processes {
			out.Processes = append(out.Processes, process(p))
		}
		if g.ECC != nil {
			out.ECC = &ecc{Corrected: g.ECC.Corrected, Uncorrected: g.ECC.Uncorrected}
		}
		if g.Remap != nil {
			out.Remap = &remap{Pending: g.Remap.Pending, Failed: g.Remap.Failed}
		}
		out.Slowdowns, out.Persistence = g.Slowdowns, g.Persistence
		r.GPUs = append(r.GPUs, out)
	}
}

// inspectAMD leaves out an integrated AMD GPU if there are NVIDIA GPUs, because
// the server is rented for those.
func (h host) inspectAMD(r *report) {
	gpus := sysfs.GPUs(h.sys)
	if len(gpus) == 0 {
		return
	}
	if r.Vendor != vendorNone {
		r.Notes = append(r.Notes, fmt.Sprintf("AMD: %d GPUs beside those of NVIDIA are left out", len(gpus)))
		return
	}
	driver := sysfs.Driver(h.sys)
	r.Vendor, r.Driver, r.DriverSeries = vendorAMD, driver, series(driver)
	for _, g := range gpus {
		out := gpu{
			Index: g.Index, UUID: g.ID, Name: g.Name, Architecture: g.Architecture, PCI: g.PCI,
			MemoryTotal: g.MemoryTotal, MemoryUsed: g.MemoryUsed, MIG: g.Partitioned, Processes: []process{},
		}
		for _, p := range g.Processes {
			out.Processes = append(out.Processes, process{PID: p.PID, Used: &p.Used, Kind: "compute"})
		}
		if g.Errors != nil {
			out.ECC = &ecc{Corrected: g.Errors.Corrected, Uncorrected: g.Errors.Uncorrected}
		}
		r.GPUs = append(r.GPUs, out)
	}
}

// users lists the processes on a GPU, as its driver shows them now.
func (h host) users(vendor string, g gpu) ([]int, error) {
	var out []int
	if vendor == vendorNVIDIA {
		processes, err := h.nvidia.Processes(g.Index)
		for _, p := range processes {
			out = append(out, p.PID)
		}
		return out, err
	}
	for _, now := range sysfs.GPUs(h.sys) {
		if now.PCI != g.PCI {
			continue
		}
		if now.Architecture == "" {
			return nil, errors.New("the compute driver does not show this GPU")
		}
		for _, p := range now.Processes {
			out = append(out, p.PID)
		}
		return out, nil
	}
	return nil, errors.New("the GPU is gone")
}

// findUnreachable compares with the PCI bus: a GPU without a working driver
// must not look like a host without GPUs.
func (h host) findUnreachable(r *report) {
	if h.container {
		r.Notes = append(r.Notes, "in a container: GPUs that were not passed in are not counted")
		return
	}
	for _, card := range sysfs.Cards(h.sys) {
		if slices.ContainsFunc(r.GPUs, func(g gpu) bool { return g.PCI == card.PCI }) {
			continue
		}
		if r.Vendor != vendorNone && card.Vendor != r.Vendor {
			continue
		}
		r.Vendor = card.Vendor
		r.Unreachable = append(r.Unreachable, card.PCI)
		r.Notes = append(r.Notes, fmt.Sprintf("the %s GPU at %s is not answered for by a driver", card.Vendor, card.PCI))
	}
}

// series is the major and minor part of a driver's version.
func series(version string) string {
	parts := strings.Split(version, ".")
	return strings.Join(parts[:min(2, len(parts))], ".")
}
