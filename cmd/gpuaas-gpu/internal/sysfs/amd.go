package sysfs

import (
	"fmt"
	"io/fs"
	"path"
	"strconv"
)

// GPU is what the kernel's driver says of one AMD GPU.
type GPU struct {
	Index        int
	ID           string // the chip's own number where it has one, else the PCI address
	Name         string
	Architecture string
	PCI          string
	MemoryTotal  uint64
	MemoryUsed   uint64
	Processes    []Process
	Errors       *Errors
	// Partitioned says that the GPU shows as several smaller ones, each with a
	// part of the memory.
	Partitioned bool
}

// Process is one process with a compute queue on a GPU.
type Process struct {
	PID  int
	Used uint64
}

// Errors is the number of errors of all parts of a GPU since the driver was
// loaded; those of its memory are among them.
type Errors struct{ Corrected, Uncorrected uint64 }

// node is a GPU as the compute driver counts it.
type node struct{ gpuID, architecture string }

// Driver is the version of the AMD driver; empty when it is not loaded. A
// driver that comes with the kernel has no version of its own.
func Driver(root fs.FS) string {
	if v := text(root, "module/amdgpu/version"); v != "" {
		return v
	}
	if _, err := fs.Stat(root, "module/amdgpu"); err != nil {
		return ""
	}
	return "in-kernel"
}

// GPUs lists the AMD GPUs that the driver has taken.
func GPUs(root fs.FS) []GPU {
	nodes := computeNodes(root)
	var gpus []GPU
	for _, card := range numbered(root, "class/drm", "card") {
		device := path.Join("class/drm", card, "device")
		total := number(root, path.Join(device, "mem_info_vram_total"))
		if vendors[text(root, path.Join(device, "vendor"))] != AMD || total == 0 {
			continue
		}
		g := GPU{
			Index: len(gpus), ID: text(root, path.Join(device, "unique_id")),
			Name:        text(root, path.Join(device, "product_name")),
			PCI:         fields(root, path.Join(device, "uevent"))["PCI_SLOT_NAME"],
			MemoryTotal: total, MemoryUsed: number(root, path.Join(device, "mem_info_vram_used")),
		}
		if g.ID == "" {
			g.ID = g.PCI
		}
		if g.Name == "" {
			g.Name = "AMD " + text(root, path.Join(device, "device"))
		}
		g.Errors = countErrors(root, path.Join(device, "ras"))
		mode := text(root, path.Join(device, "current_compute_partition"))
		g.Partitioned = mode != "" && mode != "SPX"
		if n, ok := nodes[g.PCI]; ok {
			g.Architecture = n.architecture
			g.Processes = processes(root, n.gpuID)
		}
		gpus = append(gpus, g)
	}
	return gpus
}

// countErrors adds up what the parts of a GPU count: memory, compute, links.
func countErrors(root fs.FS, folder string) *Errors {
	files, err := fs.Glob(root, path.Join(folder, "*_err_count"))
	if err != nil {
		return nil // a malformed pattern: there is none
	}
	var sum *Errors
	for _, file := range files {
		counts := fields(root, file)
		if len(counts) == 0 {
			continue
		}
		if sum == nil {
			sum = &Errors{}
		}
		sum.Corrected += parse(counts["ce"])
		sum.Uncorrected += parse(counts["ue"])
	}
	return sum
}

// computeNodes maps PCI addresses to what the compute driver says.
func computeNodes(root fs.FS) map[string]node {
	out := map[string]node{}
	const topology = "class/kfd/kfd/topology/nodes"
	for _, name := range numbered(root, topology, "") {
		id := text(root, path.Join(topology, name, "gpu_id"))
		if id == "" || id == "0" {
			continue // a processor
		}
		p := fields(root, path.Join(topology, name, "properties"))
		location := parse(p["location_id"])
		pci := fmt.Sprintf("%04x:%02x:%02x.%x", parse(p["domain"]), location>>8&0xff, location>>3&0x1f, location&7)
		out[pci] = node{gpuID: id, architecture: architecture(parse(p["gfx_target_version"]))}
	}
	return out
}

// architecture turns 90402 into gfx942.
func architecture(version uint64) string {
	if version == 0 {
		return ""
	}
	return fmt.Sprintf("gfx%d%x%x", version/10000, version/100%100, version%100)
}

func processes(root fs.FS, gpuID string) []Process {
	var out []Process
	for _, pid := range numbered(root, "class/kfd/kfd/proc", "") {
		file := path.Join("class/kfd/kfd/proc", pid, "vram_"+gpuID)
		if _, err := fs.Stat(root, file); err != nil {
			continue
		}
		n, err := strconv.Atoi(pid)
		if err != nil {
			continue
		}
		out = append(out, Process{PID: n, Used: number(root, file)})
	}
	return out
}

func parse(s string) uint64 {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0
	}
	return n
}
