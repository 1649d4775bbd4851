package steps

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"gpuaas/agent/internal/task"
	"gpuaas/contract/agentwire"
)

func TestUninstall(t *testing.T) {
	b := provisioned(t)
	b.Install("/usr/bin/systemctl")
	b.Write("/opt/gpuaas/agent/1.0/gpuaas-agent", "")
	b.Write("/etc/gpuaas/agent.env", "")
	b.Write("/etc/systemd/system/gpuaas-node-agent.service", "")
	b.Write("/var/log/gpuaas/agent.log", "")
	j := b.job(agentwire.TypeUninstall, agentwire.UninstallParams{})
	j.applyFails("users_remain")
	b.job(agentwire.TypeDeprovisionUser, gone()).apply()

	j.mustCheck(false)
	out, err := j.handler.Apply(t.Context(), j.task)
	if !errors.Is(err, task.ErrStop) {
		t.Fatal(err)
	}
	j.conforms(out)
	done := out.(agentwire.UninstallOutput)
	if len(done.Residue) > 0 || !slices.Contains(done.Removed, "/var/log/gpuaas") ||
		!slices.Contains(done.Removed, "/opt/gpuaas (once this result was received)") {
		t.Errorf("output %+v", done)
	}
	// Until the result is sent, a restart must be possible.
	for _, path := range []string{
		"/opt/gpuaas/agent/1.0/gpuaas-agent", "/etc/gpuaas/agent.env", "/var/lib/gpuaas",
		"/etc/systemd/system/gpuaas-node-agent.service",
	} {
		if !b.Exists(path) {
			t.Errorf("%s is gone too early", path)
		}
	}
	for range 2 {
		if err := j.handler.(task.Finisher).Finish(t.Context(), j.task); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{
		"/opt/gpuaas", "/etc/gpuaas", "/var/lib/gpuaas",
		"/etc/systemd/system/gpuaas-node-agent.service",
	} {
		if b.Exists(path) {
			t.Errorf("%s remains", path)
		}
	}
	if calls := b.Calls(); !slices.Contains(calls, "systemctl disable gpuaas-node-agent.service") ||
		calls[len(calls)-1] != "systemctl stop --no-block gpuaas-node-agent.service" {
		t.Errorf("calls %q", calls)
	}
}

// When systemd forgets the unit, everything that the agent needs is still
// there. If the agent is killed before that, it is started again and goes on;
// afterwards it is not.
func TestUninstallForgetsTheUnitFirst(t *testing.T) {
	b := newBench(t)
	b.Install("/usr/bin/systemctl")
	kept := []string{"/opt/gpuaas/agent/1.0/gpuaas-agent", "/etc/gpuaas/agent.env", "/var/lib/gpuaas/identity"}
	for _, path := range append(kept, "/etc/systemd/system/gpuaas-node-agent.service") {
		b.Write(path, "")
	}
	j := b.job(agentwire.TypeUninstall, agentwire.UninstallParams{})
	b.Hang("systemctl")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- j.handler.(task.Finisher).Finish(ctx, j.task) }()
	b.AwaitCall("systemctl daemon-reload")
	if b.Exists("/etc/systemd/system/gpuaas-node-agent.service") {
		t.Error("the unit is still there")
	}
	for _, path := range kept {
		if !b.Exists(path) {
			t.Errorf("%s is gone too early", path)
		}
	}
	cancel()
	if err := <-done; err == nil {
		t.Error("that systemd was not told is no error")
	}
	for _, path := range kept {
		if b.Exists(path) {
			t.Errorf("%s remains", path)
		}
	}
}

func TestUninstallIsHonestAboutWhatStays(t *testing.T) {
	b := newBench(t)
	b.Install("/usr/bin/systemctl")
	b.Fail("systemctl")
	b.Write("/var/log/gpuaas/agent.log", "")
	out := b.job(agentwire.TypeUninstall, agentwire.UninstallParams{KeepLogs: true}).apply().(agentwire.UninstallOutput)
	if len(out.Residue) != 1 || !strings.Contains(out.Residue[0], "cannot do it") ||
		!b.Exists("/var/log/gpuaas/agent.log") {
		t.Errorf("output %+v", out)
	}
}
