package steps

import (
	"context"
	"errors"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"gpuaas/agent/internal/gpu"
	"gpuaas/agent/internal/inspect"
	"gpuaas/contract/agentwire"
)

// xid is an error that the NVIDIA driver wrote into the log of the kernel.
type xid struct {
	pci  string // without the function, as the driver writes it
	code int
	line string
}

var xidForm = regexp.MustCompile(`NVRM: Xid \(PCI:([0-9A-Fa-f:]+)(?:\.[0-9a-f])?\): ([0-9]{1,5})`)

// maxKernelLog limits what is read of the kernel's log.
const maxKernelLog = 10_000

// xids reads the errors of GPUs since the machine started. The error says that
// the log of the kernel cannot be read.
func (h healthProbe) xids() ([]xid, error) {
	fd, err := syscall.Open(h.Host.Path("/dev/kmsg"), syscall.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer syscall.Close(fd)
	record := make([]byte, 8192)
	var found []xid
	for range maxKernelLog {
		n, err := syscall.Read(fd, record)
		if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.EINTR) {
			continue // records were overwritten meanwhile
		}
		if err != nil || n <= 0 {
			break // EAGAIN: that was the last one
		}
		for line := range strings.Lines(string(record[:n])) {
			if !strings.Contains(line, "NVRM: Xid") {
				continue
			}
			x := xid{line: strings.TrimSpace(line[strings.Index(line, "NVRM: ")+len("NVRM: "):])}
			if m := xidForm.FindStringSubmatch(line); m != nil {
				x.pci = strings.ToLower(m[1])
				x.code, _ = strconv.Atoi(m[2]) // at most five digits
			}
			found = append(found, x)
		}
	}
	return found, nil
}

// kernelLog shows the errors that the NVIDIA driver calls Xid.
func kernelLog(found []xid, err error) []agentwire.HealthCheck {
	switch {
	case err != nil:
		return check("gpu_xid", notApplicable, "the log of the kernel cannot be read: %v", err)
	case len(found) > 0:
		return check("gpu_xid", warning, "%d since the machine started, the last: %s", len(found),
			printable(found[len(found)-1].line))
	}
	return check("gpu_xid", ok, "none in the log of the kernel")
}

// gpuHealth is each GPU on the bus, with all that is known about its health.
func gpuHealth(r gpu.Report, errors []xid) []agentwire.GPUHealth {
	out := []agentwire.GPUHealth{}
	for _, g := range r.GPUs {
		one := agentwire.GPUHealth{
			UUID: g.UUID, Name: printable(g.Name), PCIBusID: g.PCI, Reachable: true,
			MemoryBytes: int64(min(g.MemoryTotal, math.MaxInt64)), Slowdowns: g.Slowdowns,
			Persistence: g.Persistence, MIG: g.MIG, Processes: len(g.Processes), Xids: xidsOf(g.PCI, errors),
		}
		if g.ECC != nil {
			n := int64(min(g.ECC.Uncorrected, math.MaxInt64))
			one.Uncorrected = &n
		}
		if g.Remap != nil {
			one.RowsPending, one.RowsFailed = &g.Remap.Pending, &g.Remap.Failed
		}
		out = append(out, one)
	}
	for _, pci := range r.Unreachable {
		out = append(out, agentwire.GPUHealth{PCIBusID: pci, Xids: xidsOf(pci, errors)})
	}
	return out
}

// xidsOf are the errors of the GPU at an address, each code once.
func xidsOf(pci string, all []xid) (codes []int) {
	for _, x := range all {
		if x.pci != "" && strings.HasPrefix(strings.ToLower(pci), x.pci) && !slices.Contains(codes, x.code) {
			codes = append(codes, x.code)
		}
	}
	return codes
}

func (h healthProbe) machineHealth(ctx context.Context, r gpu.Report) *agentwire.MachineHealth {
	c := inspect.Machine{Host: h.Host}.Capabilities(ctx) // its GPUs were inspected already
	return &agentwire.MachineHealth{
		GPUVendor: string(r.Vendor), MemoryBytes: c.MemoryBytes, Disks: len(c.Disks), NICs: len(c.NICs),
	}
}
