package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpuaas/sim/lab"
	"gpuaas/stack"
	"gpuaas/testkit"
)

// TestUpOnboardsMachines is the second day of a newcomer without hardware: the
// commands that gpuaas up suggests make nodes of all machines of its lab, two tenants
// rent them, and a third one comes to the end of its money. Then the
// state folder is lost, and everything is there again from a backup: nodes go on.
func TestUpOnboardsMachines(t *testing.T) {
	t.Parallel()
	state := stack.ThrowawayFolder("-lab")
	t.Cleanup(func() {
		if err := os.RemoveAll(state); err != nil {
			t.Error(err)
		}
	})
	env := []string{"GPUAAS_NODES_AGENT_FOLDER=" + buildAgents(t), "GPUAAS_NODES_AGENT_VERSION=" + firstAgent}
	env = append(env, hurriedBilling()...)
	p, _ := startUp(t, state, env...)
	cli := p.cli(t)
	checkPrivate(t, lab.RecordFile(state))
	began := time.Now()
	for _, try := range p.suggestions() {
		switch try[0] {
		case "sim":
			succeed(t, cli, try...)
		case "onboard":
			began = time.Now()
			succeed(t, cli, try...)
		}
	}
	made := p.activeNodes(t)
	t.Logf("%d machines became nodes after %s", made, time.Since(began).Round(100*time.Millisecond))
	if made != 24 {
		t.Errorf("%d machines became nodes, want all 24", made)
	}
	p.checkRent(t, made)
	payer, left := p.checkMoney(t)
	list := filepath.Join(state, "lab.csv")
	succeed(t, cli, "sim", "site", "--state", state, "--csv", list)
	if rows, err := os.ReadFile(list); err != nil || string(rows) != "hostname,ipmi_ip\n" {
		t.Errorf("machines that nobody uses: %q, %v", rows, err)
	}
	record, err := lab.ReadRecord(lab.RecordFile(state))
	if err != nil {
		t.Fatal(err)
	}
	secrets := map[string]string{"deploy password": record.DeployPassword, "MAAS token": record.Token}
	for _, name := range []string{"controlplane.log", "lab.log"} {
		content, err := os.ReadFile(filepath.Join(state, "logs", name))
		if err != nil {
			t.Error(err)
		}
		for what, secret := range secrets {
			if strings.Contains(string(content), secret) {
				t.Errorf("%s holds the %s", name, what)
			}
		}
	}

	restore := backUp(t, state)
	p.signal(syscall.SIGINT)
	if code := p.exit(t, time.Minute); code != 0 {
		t.Errorf("exit code %d after Ctrl-C, want 0", code)
	}
	if left := processesOf(t, state); len(left) > 0 {
		t.Errorf("processes are left after Ctrl-C: %v", left)
	}
	restore()
	again, _ := startUp(t, state, env...)
	if now, err := lab.ReadRecord(lab.RecordFile(state)); err != nil || now.URL != record.URL ||
		now.Token != record.Token {
		t.Errorf("the lab came back as another one: %v, %v", now.URL, err)
	}
	payer.admin = again
	if now := payer.settled(t); now != left {
		t.Errorf("%d are left after the restore, %d before", now, left)
	}
	testkit.Succeeds(t, "an agent that answers", time.Minute, func() error {
		_, said, code := command(t, again.cli(t), "node", "task", "run", record.Machines[0].Hostname, "node.heartbeat_check",
			"--reason", "test", "--wait")
		if code != 0 {
			return fmt.Errorf("exit code %d: %s", code, said)
		}
		return nil
	})
	again.end(t, syscall.SIGTERM)
}

func (p *plane) activeNodes(t *testing.T) int {
	t.Helper()
	var nodes struct {
		Items []struct{ Hostname string }
	}
	p.do(t, http.MethodGet, "/api/v1/admin/nodes?status=active&page_size=100", nil, http.StatusOK, &nodes)
	return len(nodes.Items)
}
