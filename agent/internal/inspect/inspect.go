// Package inspect looks at the machine and changes nothing: what it is made of,
// who has an account on it, what runs, what is mounted. If something is not
// there, it reports none, and no failure.
package inspect

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gpuaas/agent/internal/gpu"
	"gpuaas/agent/internal/hostexec"
	"gpuaas/contract/agentwire"
)

const none = "none"

// GPUs finds graphics processors.
type GPUs interface {
	Inspect(ctx context.Context) (gpu.Report, error)
}

// Machine is the machine to inspect.
type Machine struct {
	Host hostexec.Host
	GPUs GPUs
}

// Capabilities says what the machine is made of.
func (m Machine) Capabilities(ctx context.Context) agentwire.Capabilities {
	model, cpus := m.cpu()
	nics := m.nics()
	c := agentwire.Capabilities{
		Facts:    m.facts(nics),
		CPUModel: model, CPUs: cpus,
		MemoryBytes: m.Memory()["MemTotal"], NUMANodes: m.numaNodes(),
		Disks: m.disks(), NICs: nics, Addresses: m.Addresses(), GPUs: []agentwire.GPU{},
		Kernel: m.line("/proc/sys/kernel/osrelease"), OS: m.os(),
	}
	if m.GPUs == nil {
		return c
	}
	report, err := m.GPUs.Inspect(ctx)
	if err != nil {
		return c // the health probe reports a broken helper; the inspection goes on
	}
	for name, value := range report.Capabilities() {
		if value != none {
			c.Facts[name] = value
		}
	}
	for _, g := range report.GPUs {
		c.GPUs = append(c.GPUs, agentwire.GPU{
			Index: g.Index, UUID: g.UUID, Name: g.Name, Architecture: g.Architecture, PCIBusID: g.PCI,
			MemoryBytes: int64(min(g.MemoryTotal, math.MaxInt64)),
		})
	}
	return c
}

func (m Machine) facts(nics []agentwire.NIC) map[string]string {
	facts := map[string]string{
		"gpu.vendor": none, "gpu.architecture": none, "gpu.driver_series": none, "compute.runtime": none,
		"fabric.type": m.fabric(nics), "container.runtime": m.containerRuntime(),
		agentwire.FactHandover: "1",
	}
	if m.exists("/sys/class/kfd/kfd") && m.exists("/opt/rocm") {
		facts["compute.runtime"] = "rocm"
	}
	return facts
}

func (m Machine) cpu() (model string, cpus int) {
	for line := range strings.Lines(m.text("/proc/cpuinfo")) {
		name, value, _ := strings.Cut(line, ":")
		switch strings.TrimSpace(name) {
		case "processor":
			cpus++
		case "model name", "Model":
			model = strings.TrimSpace(value)
		}
	}
	return model, cpus
}

// CPUs counts the processors.
func (m Machine) CPUs() int {
	_, n := m.cpu()
	return n
}

// Memory reads /proc/meminfo, in bytes.
func (m Machine) Memory() map[string]int64 {
	values := map[string]int64{}
	for line := range strings.Lines(m.text("/proc/meminfo")) {
		name, rest, ok := strings.Cut(line, ":")
		fields := strings.Fields(rest)
		if !ok || len(fields) == 0 {
			continue
		}
		n, err := strconv.ParseInt(fields[0], 10, 64)
		if err != nil || n < 0 || n > 1<<50 {
			continue
		}
		if len(fields) > 1 && fields[1] == "kB" {
			n *= 1024
		}
		values[name] = n
	}
	return values
}

func (m Machine) numaNodes() int {
	n := 0
	for _, name := range m.list("/sys/devices/system/node") {
		number, ok := strings.CutPrefix(name, "node")
		if _, err := strconv.Atoi(number); ok && err == nil {
			n++
		}
	}
	return max(n, 1)
}

// notDisks are block devices without their own medium.
var notDisks = []string{"loop", "ram", "zram", "dm-", "md", "sr", "fd", "nbd"}

func (m Machine) disks() []agentwire.Disk {
	disks := []agentwire.Disk{}
	for _, name := range m.list("/sys/block") {
		if slices.ContainsFunc(notDisks, func(p string) bool { return strings.HasPrefix(name, p) }) {
			continue
		}
		dir := "/sys/block/" + name
		sectors, err := strconv.ParseInt(m.line(dir+"/size"), 10, 64)
		if err != nil || sectors <= 0 || sectors > 1<<53 {
			continue
		}
		disks = append(disks, agentwire.Disk{
			// sysfs counts in 512 bytes, whatever the disk does
			Name: name, Model: m.line(dir + "/device/model"), SizeBytes: sectors * 512,
			Rotational: m.line(dir+"/queue/rotational") == "1",
		})
	}
	return disks
}

func (m Machine) os() string {
	for line := range strings.Lines(m.text("/etc/os-release")) {
		if value, ok := strings.CutPrefix(line, "PRETTY_NAME="); ok {
			return strings.Trim(strings.TrimSpace(value), `"'`)
		}
	}
	return ""
}

// containerRuntime looks at the sockets of running runtimes, then at installed
// ones.
func (m Machine) containerRuntime() string {
	known := []struct {
		runtime string
		signs   []string
	}{
		{"docker", []string{"/run/docker.sock", "/var/run/docker.sock"}},
		{"containerd", []string{"/run/containerd/containerd.sock", "/run/k3s/containerd/containerd.sock"}},
		{"other", []string{"/run/crio/crio.sock", "/run/podman/podman.sock"}},
		{"docker", []string{"/usr/bin/dockerd"}},
		{"containerd", []string{"/usr/bin/containerd", "/usr/local/bin/containerd"}},
		{"other", []string{"/usr/bin/crio", "/usr/bin/podman"}},
	}
	for _, k := range known {
		if slices.ContainsFunc(k.signs, m.exists) {
			return k.runtime
		}
	}
	return none
}

func (m Machine) text(path string) string {
	raw, err := os.ReadFile(m.Host.Path(path))
	if err != nil {
		return ""
	}
	return string(raw)
}

func (m Machine) line(path string) string {
	first, _, _ := strings.Cut(m.text(path), "\n")
	return strings.TrimSpace(strings.ToValidUTF8(first, ""))
}

func (m Machine) exists(path string) bool {
	_, err := os.Stat(m.Host.Path(path))
	return err == nil
}

// list returns the names in a folder, sorted. It returns none if the folder is
// not there.
func (m Machine) list(path string) []string {
	entries, err := os.ReadDir(m.Host.Path(path))
	if err != nil {
		return nil
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names
}

// target returns the last part of the target of a link.
func (m Machine) target(path string) string {
	to, err := os.Readlink(m.Host.Path(path))
	if err != nil {
		return ""
	}
	return filepath.Base(to)
}
