package steps

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"gpuaas/agent/internal/gpu"
	"gpuaas/agent/internal/hostexec"
	"gpuaas/agent/internal/task"
	"gpuaas/contract/agentwire"
)

var _ = handles(func(h host) task.Handler { return healthProbe{h} }, agentwire.TypeHealthProbe)

// healthProbe looks at the health of the machine.
type healthProbe struct{ host }

// Results of one check.
const (
	ok      = "ok"
	warning = "warning"
	failed  = "failed"
)

// Check implements task.Handler. Looking is the whole task.
func (h healthProbe) Check(ctx context.Context, _ *task.Task) (any, bool, error) {
	out := agentwire.HealthProbeOutput{Healthy: true, Checks: []agentwire.HealthCheck{}}
	report, err := h.GPU.Inspect(ctx)
	xids, logged := h.xids()
	for _, look := range []func(context.Context) []agentwire.HealthCheck{
		h.disks, h.memory, h.load, h.clock, h.units, h.namespace,
		func(ctx context.Context) []agentwire.HealthCheck { return h.gpus(ctx, report, err) },
		func(context.Context) []agentwire.HealthCheck { return kernelLog(xids, logged) }, h.contact,
	} {
		out.Checks = append(out.Checks, look(ctx)...)
		if err := ctx.Err(); err != nil {
			return nil, false, fmt.Errorf("probe health: %w", err)
		}
	}
	for _, c := range out.Checks {
		out.Healthy = out.Healthy && c.Status != failed
	}
	if err == nil {
		out.GPUs, out.Machine = gpuHealth(report, xids), h.machineHealth(ctx, report)
	}
	return out, true, nil
}

// Apply implements task.Handler.
func (h healthProbe) Apply(ctx context.Context, t *task.Task) (any, error) {
	out, _, err := h.Check(ctx, t)
	return out, err
}

func check(name, status, format string, args ...any) []agentwire.HealthCheck {
	return []agentwire.HealthCheck{{Name: name, Status: status, Detail: fmt.Sprintf(format, args...)}}
}

// grade compares a percentage with two limits.
func grade(percent, warn, fail float64) string {
	switch {
	case percent >= fail:
		return failed
	case percent >= warn:
		return warning
	}
	return ok
}

func (h healthProbe) disks(context.Context) []agentwire.HealthCheck {
	var checks []agentwire.HealthCheck
	for _, folder := range []string{"/", stateFolder, "/tmp"} {
		var fs syscall.Statfs_t
		if err := syscall.Statfs(h.Host.Path(folder), &fs); err != nil || fs.Blocks == 0 {
			checks = append(checks, check("disk "+folder, notApplicable, "not there, or without a size")...)
			continue
		}
		space := 100 * (1 - float64(fs.Bavail)/float64(fs.Blocks))
		checks = append(checks, check("disk "+folder, grade(space, 90, 98), "%.0f %% in use", space)...)
		if fs.Files > 0 {
			inodes := 100 * (1 - float64(fs.Ffree)/float64(fs.Files))
			checks = append(checks, check("inodes "+folder, grade(inodes, 90, 98), "%.0f %% in use", inodes)...)
		}
	}
	return checks
}

func (h healthProbe) memory(context.Context) []agentwire.HealthCheck {
	m := h.machine.Memory()
	if m["MemTotal"] == 0 {
		return check("memory", notApplicable, "this machine does not say how much it has")
	}
	used := 100 * (1 - float64(m["MemAvailable"])/float64(m["MemTotal"]))
	return check("memory", grade(used, 90, 98), "%.0f %% of %d MiB in use", used, m["MemTotal"]>>20)
}

func (h healthProbe) load(ctx context.Context) []agentwire.HealthCheck {
	raw, err := os.ReadFile(h.Host.Path("/proc/loadavg"))
	fields := strings.Fields(string(raw))
	if err != nil || len(fields) < 3 {
		return check("load", notApplicable, "this machine does not say")
	}
	load, err := strconv.ParseFloat(fields[1], 64)
	if err != nil {
		return check("load", notApplicable, "%q is not a load", printable(fields[1]))
	}
	cpus := max(h.machine.CPUs(), 1)
	// A busy tenant is no defect: load alone never fails a machine.
	return check("load", grade(100*load/float64(cpus), 400, 1e9), "%.2f over five minutes on %d CPUs", load, cpus)
}

// clock asks the kernel whether its time is synchronised.
func (h healthProbe) clock(context.Context) []agentwire.HealthCheck {
	if !h.Host.Real() {
		return check("clock", notApplicable, "the clock of this machine is that of another")
	}
	var t syscall.Timex
	state, err := syscall.Adjtimex(&t)
	const unsynchronised = 5 // TIME_ERROR
	switch {
	case err != nil:
		return check("clock", warning, "the kernel does not say: %v", err)
	case state == unsynchronised:
		return check("clock", warning, "not kept in step with any time server")
	}
	return check("clock", ok, "in step, estimated error %d µs", t.Esterror)
}

func (h healthProbe) units(ctx context.Context) []agentwire.HealthCheck {
	out, err := h.Host.Do(ctx, hostexec.Command{
		Program: "systemctl",
		Args:    []string{"list-units", "--failed", "--no-legend", "--plain", "--no-pager"}, Timeout: 20 * time.Second,
	})
	if errors.Is(err, hostexec.ErrNoProgram) {
		return check("units", notApplicable, "this machine has no systemd")
	}
	if err != nil {
		return check("units", notApplicable, "systemctl does not answer: %v", err)
	}
	var broken []string
	for line := range strings.Lines(string(out.Stdout)) {
		if fields := strings.Fields(line); len(fields) > 0 && len(broken) < 20 {
			broken = append(broken, printable(fields[0]))
		}
	}
	if len(broken) > 0 {
		return check("units", warning, "failed: %s", strings.Join(broken, ", "))
	}
	return check("units", ok, "none failed")
}

// namespace finds an agent that is cut off from its machine: in its own mount
// namespace it cleans and unmounts only for itself.
func (h healthProbe) namespace(context.Context) []agentwire.HealthCheck {
	if !h.Host.Real() {
		return check("mount_namespace", notApplicable, "this machine is a folder")
	}
	own, errOwn := os.Readlink("/proc/self/ns/mnt")
	machine, errMachine := os.Readlink("/proc/1/ns/mnt")
	switch {
	case errOwn != nil || errMachine != nil:
		return check("mount_namespace", notApplicable, "the kernel does not say")
	case own != machine:
		return check("mount_namespace", warning,
			"the agent has mounts of its own: its unit must not use PrivateTmp, ProtectSystem and the like")
	}
	return check("mount_namespace", ok, "that of the machine")
}

func (h healthProbe) gpus(ctx context.Context, report gpu.Report, err error) []agentwire.HealthCheck {
	if err != nil {
		return check("gpu", failed, "%v", err)
	}
	var checks []agentwire.HealthCheck
	for _, pci := range report.Unreachable {
		checks = append(checks, check("gpu "+pci, failed, "no driver answers for this GPU")...)
	}
	for _, g := range report.GPUs {
		switch {
		case g.ECC == nil:
			checks = append(checks, check("gpu "+g.UUID, ok, "%s; no error counters", g.Name)...)
		case g.ECC.Uncorrected > 0:
			checks = append(checks, check("gpu "+g.UUID, failed, "%s; %d uncorrected memory errors", g.Name,
				g.ECC.Uncorrected)...)
		default:
			checks = append(checks, check("gpu "+g.UUID, ok, "%s; %d corrected memory errors", g.Name, g.ECC.Corrected)...)
		}
	}
	if report.Vendor == gpu.AMD {
		checks = append(checks, h.amdSMI(ctx, len(report.GPUs))...)
	}
	if len(checks) == 0 {
		return check("gpu", notApplicable, "this machine has no GPU")
	}
	return checks
}

// amdSMI asks AMD's own tool, which counts the errors of all parts of a GPU and
// knows those that the compute driver has lost. seen is how many GPUs the kernel
// shows.
func (h healthProbe) amdSMI(ctx context.Context, seen int) []agentwire.HealthCheck {
	const name = "amd-smi"
	out, err := h.Host.Do(ctx, hostexec.Command{
		Program: name, Args: []string{"metric", "--ecc", "--json"}, Timeout: 30 * time.Second,
	})
	if errors.Is(err, hostexec.ErrNoProgram) {
		return check(name, notApplicable, "it is not installed")
	}
	if err != nil {
		return check(name, warning, "it does not answer: %v", err)
	}
	counts, err := gpu.ParseAMDErrors(out.Stdout)
	switch {
	case err != nil:
		return check(name, warning, "its answer cannot be read: %v", err)
	case len(counts) != seen:
		return check(name, failed, "it shows %d GPUs, and the kernel %d", len(counts), seen)
	}
	for i, n := range counts {
		if n.Uncorrected > 0 {
			return check(name, failed, "GPU %d: %d uncorrected errors", i, n.Uncorrected)
		}
	}
	return check(name, ok, "%d GPUs without uncorrected errors", seen)
}

func (h healthProbe) contact(context.Context) []agentwire.HealthCheck {
	last := h.LastPoll()
	if last.IsZero() {
		return check("contact", warning, "the control plane was not reached since the agent started")
	}
	ago := h.Clock().Sub(last).Round(time.Second)
	if ago > 5*time.Minute {
		return check("contact", warning, "last reached %s ago", ago)
	}
	return check("contact", ok, "last reached %s ago", ago)
}
