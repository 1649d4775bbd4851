package e2e

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpuaas/stack"
	"gpuaas/testkit"
)

// TestUpWithMachines is what a newcomer without hardware and without privileges
// does: the machines of gpuaas up become nodes from their first boot, get a model out of its
// registry, and come back with the next start.
func TestUpWithMachines(t *testing.T) {
	t.Parallel()
	state := stack.ThrowawayFolder("-rack")
	t.Cleanup(func() {
		if err := os.RemoveAll(state); err != nil {
			t.Error(err)
		}
	})
	store := newPrivateStore(t)
	env := []string{
		"GPUAAS_NODES_AGENT_FOLDER=" + buildAgents(t), "GPUAAS_NODES_AGENT_VERSION=" + firstAgent,
		"SSL_CERT_FILE=" + store.roots, // the machines of the process rack trust what the system does
	}
	p, tokenFile := startUp(t, state, env...)
	token, err := os.ReadFile(tokenFile)
	if err != nil {
		t.Fatal(err)
	}
	p.token = strings.TrimSpace(string(token))
	cli := p.cli(t)
	payload := succeed(t, cli, "node", "add", "m1", "--sku", "h200-sxm-slice", "--region", "lab", "--cloud-init")
	userData := privateFile(t, t.TempDir(), "user-data", payload)
	rack := func(args ...string) string {
		return succeed(t, cli, append([]string{"sim", "rack", "--state", state}, args...)...)
	}
	rack("add", "m1", "--user-data", userData)
	active := func(p *plane) {
		t.Helper()
		testkit.Succeeds(t, "an active node", time.Minute, func() error { return p.nodeIs("m1", "active") })
	}
	active(p)
	if out := rack("list"); !strings.Contains(out, "m1") || !strings.Contains(out, "on") {
		t.Errorf("machines:\n%s", out)
	}
	succeed(t, cli, "node", "task", "run", "m1", "node.heartbeat_check", "--reason", "test", "--wait")
	model := p.stageModel(t, cli, state, "m1", store)

	p.signal(syscall.SIGINT)
	if code := p.exit(t, time.Minute); code != 0 {
		t.Errorf("exit code %d after Ctrl-C, want 0", code)
	}
	if left := processesOf(t, state); len(left) > 0 {
		t.Errorf("processes are left after Ctrl-C: %v", left)
	}
	again, _ := startUp(t, state, env...)
	again.token = p.token
	active(again)
	again.keepsModel(t, model)
	succeed(t, again.cli(t), "node", "task", "run", "m1", "node.heartbeat_check", "--reason", "test", "--wait")
	rack("remove", "m1")
	again.end(t, syscall.SIGTERM)
}
