package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"gpuaas/contract/agentwire"
	"gpuaas/sim/rack"
	"gpuaas/stack"
	"gpuaas/stack/stacktest"
	"gpuaas/testkit"
)

// Versions of the agent that the control plane of these tests gives away.
const (
	firstAgent  = "1.0.0-e2e"
	secondAgent = "1.0.1-e2e"
)

// buildAgents gives the folder with both versions; the first test that asks has
// them built.
func buildAgents(t *testing.T) string {
	t.Helper()
	folder, err := agents()
	if err != nil {
		t.Fatal(err)
	}
	return folder
}

// agents are built as they are shipped: static, without the race detector.
var agents = sync.OnceValues(func() (folder string, err error) {
	folder = filepath.Join(filepath.Dir(program), "agents")
	for _, version := range []string{firstAgent, secondAgent} {
		for _, name := range []string{"gpuaas-agent", "gpuaas-gpu"} {
			to := filepath.Join(folder, version, name)
			flags := "-s -w -X main.version=" + version + " -X main.commit=e2e"
			cmd := exec.CommandContext(context.Background(), "go", "build", "-trimpath", "-ldflags", flags, "-o", to,
				"../cmd/"+name)
			cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
			if out, err := cmd.CombinedOutput(); err != nil {
				return "", fmt.Errorf("build %s: %w\n%s", name, err, out)
			}
		}
	}
	return folder, nil
})

func openRack(t *testing.T, kind rack.Kind) rack.Rack {
	t.Helper()
	r, err := rack.Open(t.Context(), rack.Options{
		Kind: kind, Folder: t.TempDir(), Throwaway: true,
		Progress: func(s string) { t.Log(s) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
		defer cancel()
		if err := r.Remove(ctx); err != nil {
			t.Error(err)
		}
	})
	return r
}

// startPlaneFor runs a control plane that the machines of a rack reach.
func startPlaneFor(t *testing.T, r rack.Rack) *plane {
	t.Helper()
	_, port, err := net.SplitHostPort(freeAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	address := net.JoinHostPort(r.HostAddress(), port)
	return startPlane(t, stacktest.Start(t, stack.Options{}).Endpoints(), planeOptions{env: []string{
		"GPUAAS_NODES_LISTEN=" + address, "GPUAAS_NODES_URL=https://" + address,
		"GPUAAS_NODES_AGENT_FOLDER=" + buildAgents(t), "GPUAAS_NODES_AGENT_VERSION=" + firstAgent,
		"GPUAAS_NODES_WITHOUT_GPUS=true",
	}})
}

// rackNode is a machine and the node that it is, or will be.
type rackNode struct {
	plane   *plane
	machine rack.Machine
	id      string
	tenant  tenant // who rents it
}

type newNode struct {
	Node struct {
		ID string `json:"node_id"`
	}
	Bootstrap struct {
		Command  string
		UserData string `json:"user_data"`
	}
}

func (p *plane) addNode(t *testing.T, hostname, mode string) newNode {
	t.Helper()
	var made newNode
	p.do(t, http.MethodPost, "/api/v1/admin/nodes", map[string]any{
		"hostname": hostname, "sku": "h200-sxm-baremetal-8g", "region_code": "lab", "bootstrap_mode": mode,
	}, http.StatusCreated, &made)
	return made
}

// becomes waits for a state of the node.
func (n *rackNode) becomes(t *testing.T, status string) {
	t.Helper()
	testkit.Succeeds(t, "node "+status, time.Minute, func() error {
		var node struct{ Status string }
		n.plane.do(t, http.MethodGet, "/api/v1/admin/nodes/"+n.id, nil, http.StatusOK, &node)
		if node.Status != status {
			return fmt.Errorf("it is %s", node.Status)
		}
		return nil
	})
}

// nodeIs looks for a node by its name.
func (p *plane) nodeIs(hostname, status string) error {
	got, err := p.call(context.Background(), http.MethodGet, "/api/v1/admin/nodes?hostname="+hostname+"&status="+status,
		nil)
	if err != nil {
		return err
	}
	if !strings.Contains(got.String(), `"hostname":"`+hostname+`"`) {
		return fmt.Errorf("no node %s is %s: %s", hostname, status, got)
	}
	return nil
}

// does gives the node a task and reads its output into out.
func (n *rackNode) does(t *testing.T, typ string, params, out any) {
	t.Helper()
	task := n.ends(t, typ, params)
	if task.Status != "succeeded" {
		t.Fatalf("%s %s: %s", typ, task.Status, task.Error)
	}
	if err := json.Unmarshal(task.Output, out); err != nil {
		t.Fatalf("output of %s: %v", typ, err)
	}
}

type endedTask struct {
	TaskID string `json:"task_id"`
	Status string
	Output json.RawMessage
	Error  json.RawMessage
}

func (n *rackNode) ends(t *testing.T, typ string, params any) endedTask {
	t.Helper()
	var task endedTask
	n.plane.do(t, http.MethodPost, "/api/v1/admin/nodes/"+n.id+"/tasks",
		map[string]any{"type": typ, "params": params, "reason": "test"}, http.StatusAccepted, &task)
	testkit.Succeeds(t, typ, 5*time.Minute, func() error {
		n.plane.do(t, http.MethodGet, "/api/v1/admin/node-tasks/"+task.TaskID, nil, http.StatusOK, &task)
		if task.Status == "queued" || task.Status == "dispatched" {
			return errors.New("it is " + task.Status)
		}
		return nil
	})
	return task
}

func (n *rackNode) run(t *testing.T, argv ...string) string {
	t.Helper()
	out, err := n.machine.Exec(t.Context(), nil, argv...)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out)
}

// TestLXDMachinesAsNodes is the life of a node on a real Linux system: an
// operator pastes the printed command into a fresh machine, and another machine
// gets the same bootstrap from cloud-init.
func TestLXDMachinesAsNodes(t *testing.T) {
	t.Parallel()
	r := openRack(t, rack.LXD)
	p := startPlaneFor(t, r)

	bare, err := r.Machine(t.Context(), rack.Spec{Name: "pasted"})
	if err != nil {
		t.Fatal(err)
	}
	if err := bare.Booted(t.Context()); err != nil {
		t.Fatal(err)
	}
	made := p.addNode(t, "pasted", "shell")
	n := &rackNode{plane: p, machine: bare, id: made.Node.ID, tenant: p.newTenant(t, "acme")}
	began := time.Now()
	if out, err := bare.Exec(t.Context(), strings.NewReader(made.Bootstrap.Command+"\n"), "sh"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	n.becomes(t, "active")
	t.Logf("active %s after the command was pasted", time.Since(began).Round(time.Millisecond))

	t.Run("cloud-init", func(t *testing.T) {
		began := time.Now()
		booted := p.addNode(t, "booted", "cloud_init")
		m, err := r.Machine(t.Context(), rack.Spec{Name: "booted", UserData: []byte(booted.Bootstrap.UserData)})
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Booted(t.Context()); err != nil {
			t.Fatal(err)
		}
		(&rackNode{plane: p, machine: m, id: booted.Node.ID}).becomes(t, "active")
		t.Logf("active %s after the machine was ordered", time.Since(began).Round(time.Millisecond))
	})
	t.Run("users", func(t *testing.T) { n.provisions(t) })
	t.Run("terminal", func(t *testing.T) { n.opensTerminal(t) })
	t.Run("looks", func(t *testing.T) { n.looksAtItself(t) })
	t.Run("operation", func(t *testing.T) { n.operates(t) })
	t.Run("kill", func(t *testing.T) { n.survivesKill(t) })
	t.Run("update", func(t *testing.T) { n.updates(t) })
	t.Run("recovery", func(t *testing.T) { n.recovers(t) })
	t.Run("uninstall", func(t *testing.T) { n.isUninstalled(t) })
}

func (n *rackNode) provisions(t *testing.T) {
	key := "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGdwdWFhcyB0ZXN0IGtleSBvZiBub2JvZHkhISEhISEh"
	var kept struct {
		ID string `json:"ssh_key_id"`
	}
	n.plane.do(t, http.MethodPost, "/api/v1/projects/"+n.tenant.project+"/ssh-keys",
		map[string]string{"name": "test", "public_key": key}, http.StatusCreated, &kept)
	ada := n.tenant.rents(t, n.plane, n.id, "user", kept.ID)
	if got := n.run(t, "id", "-un", ada.Username); got != ada.Username {
		t.Errorf("the account is %s, want %s", got, ada.Username)
	}
	if got := n.run(t, "cat", "/home/"+ada.Username+"/.ssh/authorized_keys"); !strings.Contains(got, key) {
		t.Errorf("keys %q", got)
	}
	var verdict agentwire.ValidateCleanOutput
	n.does(t, agentwire.TypeValidateClean, agentwire.ValidateCleanParams{}, &verdict)
	if verdict.Clean {
		t.Errorf("a node with a tenant is clean: %+v", verdict)
	}
	var drained agentwire.DrainOutput
	n.does(t, agentwire.TypeDrain, agentwire.DrainParams{Reason: "test", RevokeUsers: true}, &drained)
	if _, err := n.machine.Exec(t.Context(), nil, "id", ada.Username); err == nil || len(drained.UsersLeft) > 0 {
		t.Errorf("after the drain: %v, %+v", err, drained)
	}
	n.does(t, agentwire.TypeStorageCleanup, agentwire.StorageCleanupParams{Scope: "local"},
		&agentwire.StorageCleanupOutput{})
	verdict = agentwire.ValidateCleanOutput{}
	// The account that cloud-init makes on every machine of this image.
	n.does(t, agentwire.TypeValidateClean, agentwire.ValidateCleanParams{AllowedUsers: []string{"debian"}}, &verdict)
	if !verdict.Clean {
		t.Errorf("findings %+v", verdict.Findings)
	}
	n.does(t, agentwire.TypeDrain, agentwire.DrainParams{Reason: "test", Resume: true}, &drained)
	n.tenant.leaves(t, n.plane, ada)
}

func (n *rackNode) looksAtItself(t *testing.T) {
	var scrub agentwire.GPUScrubOutput
	n.does(t, agentwire.TypeGPUScrub, agentwire.GPUScrubParams{}, &scrub)
	if scrub.Outcome != "not_applicable" {
		t.Errorf("scrub without a GPU: %+v", scrub)
	}
	var health agentwire.HealthProbeOutput
	n.does(t, agentwire.TypeHealthProbe, agentwire.HealthProbeParams{}, &health)
	if len(health.Checks) == 0 {
		t.Error("a probe without checks")
	}
}

// survivesKill ends the agent without a word; systemd starts it again.
func (n *rackNode) survivesKill(t *testing.T) {
	n.run(t, "systemctl", "kill", "--signal=KILL", "gpuaas-node-agent")
	// The poll of the killed process may still take a task with it; a heartbeat is
	// tried once only, so it is asked for again.
	task := n.ends(t, agentwire.TypeHeartbeatCheck, agentwire.HeartbeatParams{})
	if task.Status == "expired" {
		task = n.ends(t, agentwire.TypeHeartbeatCheck, agentwire.HeartbeatParams{})
	}
	var beat agentwire.HeartbeatOutput
	if err := json.Unmarshal(task.Output, &beat); err != nil || beat.Build.Version != firstAgent {
		t.Errorf("heartbeat %s: %s, %+v, %v", task.Status, task.Error, beat, err)
	}
}

func (n *rackNode) updates(t *testing.T) {
	var out agentwire.SelfUpdateOutput
	n.does(t, agentwire.TypeSelfUpdate, map[string]string{"action": "update", "version": secondAgent}, &out)
	if got := n.run(t, "readlink", "/opt/gpuaas/agent/current"); got != secondAgent || out.RolledBack {
		t.Errorf("current is %s, %+v", got, out)
	}
	out = agentwire.SelfUpdateOutput{}
	n.does(t, agentwire.TypeSelfUpdate, map[string]string{"action": "rollback"}, &out)
	var beat agentwire.HeartbeatOutput
	n.does(t, agentwire.TypeHeartbeatCheck, agentwire.HeartbeatParams{}, &beat)
	if beat.Build.Version != firstAgent {
		t.Errorf("after the rollback: %+v, %+v", beat, out)
	}
}

func (n *rackNode) isUninstalled(t *testing.T) {
	var out agentwire.UninstallOutput
	n.does(t, agentwire.TypeUninstall, agentwire.UninstallParams{}, &out)
	if len(out.Residue) > 0 {
		t.Errorf("left: %v", out.Residue)
	}
	testkit.Succeeds(t, "the agent to be gone", time.Minute, func() error {
		for _, folder := range []string{"/opt/gpuaas", "/etc/gpuaas", "/var/lib/gpuaas"} {
			if _, err := n.machine.Exec(t.Context(), nil, "test", "!", "-e", folder); err != nil {
				return err
			}
		}
		_, err := n.machine.Exec(t.Context(), nil, "sh", "-c", "! systemctl is-active --quiet gpuaas-node-agent")
		return err
	})
}

// TestProcessMachinesAsNodes is the same without privileges: machines that are
// folders.
func TestProcessMachinesAsNodes(t *testing.T) {
	t.Parallel()
	r := openRack(t, rack.Process)
	p := startPlaneFor(t, r)
	began := time.Now()
	made := p.addNode(t, "folder", "cloud_init")
	m, err := r.Machine(t.Context(), rack.Spec{Name: "folder", UserData: []byte(made.Bootstrap.UserData)})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Booted(t.Context()); err != nil {
		t.Fatal(err)
	}
	n := &rackNode{plane: p, machine: m, id: made.Node.ID, tenant: p.newTenant(t, "acme")}
	n.becomes(t, "active")
	t.Logf("active %s after the machine was ordered", time.Since(began).Round(time.Millisecond))
	ada := n.tenant.rents(t, p, n.id, "user")
	n.tenant.leaves(t, n.plane, ada)
	n.updatesInFolder(t)
	n.does(t, agentwire.TypeUninstall, agentwire.UninstallParams{}, &agentwire.UninstallOutput{})
	testkit.Succeeds(t, "an inactive unit", time.Minute, func() error {
		if out, _ := m.Exec(t.Context(), nil, "systemctl", "is-active",
			"gpuaas-node-agent"); strings.TrimSpace(out) != "inactive" {
			return errors.New(out)
		}
		return nil
	})
}

func (n *rackNode) updatesInFolder(t *testing.T) {
	for _, step := range []struct{ action, version, want string }{
		{"update", secondAgent, secondAgent},
		{"rollback", "", firstAgent},
	} {
		params := map[string]string{"action": step.action}
		if step.version != "" {
			params["version"] = step.version
		}
		n.does(t, agentwire.TypeSelfUpdate, params, &agentwire.SelfUpdateOutput{})
		var beat agentwire.HeartbeatOutput
		n.does(t, agentwire.TypeHeartbeatCheck, agentwire.HeartbeatParams{}, &beat)
		if beat.Build.Version != step.want {
			t.Errorf("after %s: %+v", step.action, beat)
		}
	}
}
