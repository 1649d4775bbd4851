package steps

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpuaas/agent/internal/gpu"
	"gpuaas/agent/internal/hostexec"
	"gpuaas/agent/internal/hostexec/hosttest"
	"gpuaas/agent/internal/inspect"
	"gpuaas/agent/internal/update"
	"gpuaas/contract/agentwire"
)

const installedHelper = "/opt/gpuaas/agent/current/gpuaas-gpu"

// onThisMachine gives handlers the real helper: the installed one, so that the
// test can be carried to a machine with GPUs, or one that is built here.
func onThisMachine(t *testing.T) *bench {
	t.Helper()
	b := &bench{Machine: hosttest.New(t), t: t, terminals: &fakeTerminals{open: map[string]string{}}, now: time.Now()}
	host := hostexec.Host{}
	if _, err := host.Program("gpuaas-gpu"); err != nil {
		host = b.Host()
		to := host.Path(installedHelper)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), "go", "build", "-o", to, "gpuaas/cmd/gpuaas-gpu")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("build helper: %v\n%s", err, out)
		}
	}
	b.deps = Deps{
		Host: host, GPU: gpu.Helper{Path: installedHelper, Runner: host}, Terminals: b.terminals,
		Updates:  update.New(b.Host(), "1.0", time.Now),
		LastPoll: time.Now, Clock: time.Now,
	}
	return b
}

// The handlers for GPUs with the real helper and the real tools: with a GPU the
// evidence must be complete, without one it must say so.
func TestGPUHandlersOnThisMachine(t *testing.T) {
	b := onThisMachine(t)
	found, err := b.deps.GPU.Inspect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	facts := inspect.Machine{Host: b.deps.Host, GPUs: b.deps.GPU}.Capabilities(t.Context()).Facts
	t.Logf("vendor %s, driver %s, facts %v", found.Vendor, found.Driver, facts)
	began := time.Now()
	out := b.job(agentwire.TypeGPUScrub, agentwire.GPUScrubParams{Reset: true}).apply().(agentwire.GPUScrubOutput)
	t.Logf("%s after %s: %+v", out.Outcome, time.Since(began).Round(time.Millisecond), out)
	wanted := "clean"
	if found.Vendor == gpu.None {
		wanted = "not_applicable"
		if out.Outcome != notApplicable || out.Reason == "" || facts["gpu.vendor"] != "none" {
			t.Errorf("without a GPU: %+v, %v", out, facts)
		}
	} else {
		if out.Outcome != scrubbed || len(out.GPUs) != len(found.GPUs) || facts["gpu.vendor"] != string(found.Vendor) {
			t.Errorf("with %d GPUs: %+v, %v", len(found.GPUs), out, facts)
		}
		for _, g := range out.GPUs {
			if float64(g.BytesCovered) < minCoverage*float64(g.BytesTotal) || g.WordsNonzero != 0 || g.Reset != "done" {
				t.Errorf("evidence %+v", g)
			}
		}
	}
	verdict := validated(b)
	for _, c := range verdict.Checked {
		if strings.HasPrefix(c.Kind, "gpu_") && c.Result != wanted {
			t.Errorf("%s: %s %s", c.Kind, c.Result, c.Detail)
		}
	}
}
