package steps

import (
	"errors"
	"testing"
	"time"

	"gpuaas/agent/internal/gpu"
	"gpuaas/agent/internal/hostexec"
	"gpuaas/contract/agentwire"
)

func probed(b *bench) (agentwire.HealthProbeOutput, map[string]agentwire.HealthCheck) {
	b.t.Helper()
	out, done := b.job(agentwire.TypeHealthProbe, agentwire.HealthProbeParams{}).check()
	if !done {
		b.t.Fatal("a look is all there is to do")
	}
	probe := out.(agentwire.HealthProbeOutput)
	checks := map[string]agentwire.HealthCheck{}
	for _, c := range probe.Checks {
		checks[c.Name] = c
	}
	return probe, checks
}

func TestHealth(t *testing.T) {
	ecc := func(n uint64) func(*bench) {
		return func(b *bench) {
			b.gpu.report = gpu.Report{Vendor: gpu.NVIDIA, GPUs: []gpu.GPU{{UUID: "GPU-1", ECC: &gpu.ECC{Uncorrected: n}}}}
		}
	}
	mi300x := func(says string) func(*bench) {
		return func(b *bench) {
			b.gpu.report = gpu.Report{Vendor: gpu.AMD, GPUs: []gpu.GPU{{UUID: "a1b2", Name: "AMD Instinct MI300X"}}}
			if says != "" {
				b.Install("/usr/bin/amd-smi")
				b.Say("amd-smi", says)
			}
		}
	}
	counted := func(n string) string { return `[{"gpu":0,"ecc":{"total_uncorrectable_count":` + n + `}}]` }
	for name, c := range map[string]struct {
		prepare func(b *bench)
		check   string
		status  string
		healthy bool
	}{
		"memory": {
			func(b *bench) { b.Write("/proc/meminfo", "MemTotal: 1000 kB\nMemAvailable: 900 kB\n") }, "memory",
			"ok", true,
		},
		"memory scarce": {
			func(b *bench) { b.Write("/proc/meminfo", "MemTotal: 1000 kB\nMemAvailable: 50 kB\n") }, "memory",
			"warning", true,
		},
		"memory out": {
			func(b *bench) { b.Write("/proc/meminfo", "MemTotal: 1000 kB\nMemAvailable: 5 kB\n") }, "memory",
			"failed", false,
		},
		"memory unknown": {func(*bench) {}, "memory", "not_applicable", true},
		"load":           {func(b *bench) { b.Write("/proc/loadavg", "9.0 0.5 0.1 1/100 1\n") }, "load", "ok", true},
		"load high":      {func(b *bench) { b.Write("/proc/loadavg", "9.0 50 0.1 1/100 1\n") }, "load", "warning", true},
		"load garbage":   {func(b *bench) { b.Write("/proc/loadavg", "a b c\n") }, "load", "not_applicable", true},
		"no systemd":     {func(*bench) {}, "units", "not_applicable", true},
		"units":          {func(b *bench) { b.Install("/usr/bin/systemctl") }, "units", "ok", true},
		"failed units": {func(b *bench) {
			b.Install("/usr/bin/systemctl")
			b.Say("systemctl", "ssh.service loaded failed failed x\n")
		}, "units", "warning", true},
		"systemd away": {
			func(b *bench) { b.Install("/usr/bin/systemctl"); b.Fail("systemctl") }, "units", "not_applicable",
			true,
		},
		"no GPU":     {func(*bench) {}, "gpu", "not_applicable", true},
		"GPU":        {ecc(0), "gpu GPU-1", "ok", true},
		"GPU errors": {ecc(2), "gpu GPU-1", "failed", false},
		"GPU lost": {
			func(b *bench) { b.gpu.report = gpu.Report{Vendor: gpu.AMD, Unreachable: []string{"x"}} }, "gpu x",
			"failed", false,
		},
		"MI300X":            {mi300x(counted("0")), "amd-smi", "ok", true},
		"MI300X errors":     {mi300x(counted("2")), "amd-smi", "failed", false},
		"MI300X lost":       {mi300x("[]"), "amd-smi", "failed", false},
		"amd-smi says else": {mi300x("no driver"), "amd-smi", "warning", true},
		"amd-smi not there": {mi300x(""), "amd-smi", "not_applicable", true},
		"helper broken":     {func(b *bench) { b.gpu.inspectErr = errors.New("crashed") }, "gpu", "failed", false},
		"no kernel log":     {func(*bench) {}, "gpu_xid", "not_applicable", true},
		"kernel log":        {func(b *bench) { b.Write("/dev/kmsg", "6,1,0,-;all is well\n") }, "gpu_xid", "ok", true},
		"Xid": {func(b *bench) {
			b.Write("/dev/kmsg", "6,1,0,-;NVRM: Xid (PCI:0000:18:00): 79, GPU has fallen off the bus.\n")
		}, "gpu_xid", "warning", true},
		"contact": {func(*bench) {}, "contact", "ok", true},
		"no contact": {
			func(b *bench) { b.deps.LastPoll = func() time.Time { return time.Time{} } }, "contact", "warning",
			true,
		},
		"long ago": {
			func(b *bench) { b.deps.LastPoll = func() time.Time { return b.now.Add(-time.Hour) } }, "contact",
			"warning", true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			c.prepare(b)
			out, checks := probed(b)
			if out.Healthy != c.healthy || checks[c.check].Status != c.status || checks[c.check].Detail == "" {
				t.Errorf("healthy %v, %s is %+v", out.Healthy, c.check, checks[c.check])
			}
		})
	}
}

// The machine that the tests run on.
func TestHealthOfThisMachine(t *testing.T) {
	b := newBench(t)
	b.deps.Host = hostexec.Host{}
	_, checks := probed(b)
	for _, name := range []string{"disk /", "memory", "load", "clock", "mount_namespace", "contact"} {
		if c := checks[name]; c.Status == "" || c.Detail == "" {
			t.Errorf("%s: %+v", name, c)
		}
	}
}
