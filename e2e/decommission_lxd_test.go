package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpuaas/sim/lab"
	"gpuaas/sim/rack"
	"gpuaas/testkit"
)

// decommissionView is the part of a decommission that tests look at.
type decommissionView struct {
	ID     string `json:"decommission_id"`
	Mode   string `json:"mode"`
	Status string `json:"status"`
	Stage  string `json:"current_stage"`
}

// operate begins an operation on a node and waits for its end.
func (p *plane) operate(t *testing.T, node string, body map[string]any) decommissionView {
	t.Helper()
	body["reason"] = "test"
	var view decommissionView
	p.do(t, http.MethodPost, "/api/v1/admin/nodes/"+node+"/decommission", body, http.StatusAccepted, &view)
	testkit.Succeeds(t, fmt.Sprintf("the end of %s", view.Mode), 5*time.Minute, func() error {
		p.do(t, http.MethodGet, "/api/v1/admin/decommissions/"+view.ID, nil, http.StatusOK, &view)
		switch {
		case view.Status == "completed":
			return nil
		case strings.HasPrefix(view.Status, "failed"):
			a, err := p.call(t.Context(), http.MethodGet, "/api/v1/admin/decommissions/"+view.ID+"/explain", nil)
			t.Fatalf("%s is parked: %s %v", view.Mode, a, err)
		}
		return fmt.Errorf("it is %s in %s", view.Status, view.Stage)
	})
	return view
}

// nodeID is the id of the node of a host.
func (p *plane) nodeID(t *testing.T, hostname string) string {
	t.Helper()
	var nodes struct {
		Items []struct {
			NodeID string `json:"node_id"`
		}
	}
	p.do(t, http.MethodGet, "/api/v1/admin/nodes?hostname="+hostname, nil, http.StatusOK, &nodes)
	if len(nodes.Items) != 1 {
		t.Fatalf("%d nodes are called %s", len(nodes.Items), hostname)
	}
	return nodes.Items[0].NodeID
}

// decommissionsMachine takes a real Linux system through the releases of tenants, a
// reimage and a full decommission with what tenants leave behind, checks the documents
// offline and onboards the machine again.
func (p *plane) decommissionsMachine(t *testing.T, r rack.Rack, l *lab.Lab, hostname string) {
	cli, node := p.cli(t), p.nodeID(t, hostname)
	acme := p.newTenant(t, "acme")
	run := func(line string) string {
		machines, err := r.Machines(t.Context())
		if err != nil || len(machines) != 1 {
			t.Fatalf("machines: %v, %v", machines, err)
		}
		out, err := machines[0].Exec(t.Context(), nil, "sh", "-c", line)
		if err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
		return strings.TrimSpace(out)
	}
	t.Run("what an interrupted first boot left is cleaned up", func(t *testing.T) { settlesFirstBoot(t, run) })
	t.Run("a release removes what a tenant left over SSH", func(t *testing.T) {
		p.leavesOverSSH(t, r, acme, node, run)
		if err := p.nodeIs(hostname, "active"); err != nil {
			t.Error(err)
		}
	})
	t.Run("the next tenant knows what is proven",
		func(t *testing.T) { p.knowsWhatIsProven(t, r, p.newTenant(t, "globex"), node) })
	t.Run("a reimage leaves nothing and keeps the id", func(t *testing.T) {
		run("touch /root/of-the-old-system")
		p.operate(t, node, map[string]any{"mode": "reimage", "erase": "quick"})
		if got := run("test -e /root/of-the-old-system && echo there || echo gone"); got != "gone" {
			t.Error("the old system is still there")
		}
		if again := p.nodeID(t, hostname); again != node {
			t.Errorf("the node was %s and is %s", node, again)
		}
	})
	t.Run("a tenant with root is not cleaned away by a soft reset",
		func(t *testing.T) { p.rootIsInstalledAway(t, r, acme, node, hostname, run) })
	t.Run("a full decommission ends the node", func(t *testing.T) {
		p.operate(t, node, map[string]any{"mode": "full_decommission", "erase": "quick"})
		if m := l.Overview()[0]; m.Status != "Ready" || m.Power != "off" {
			t.Errorf("the machine is %s, power %s", m.Status, m.Power)
		}
		var gone struct {
			Status string `json:"status"`
		}
		p.do(t, http.MethodGet, "/api/v1/admin/nodes/"+node, nil, http.StatusOK, &gone)
		if gone.Status != "deleted" {
			t.Errorf("the node is %s", gone.Status)
		}
	})
	t.Run("its documents can be checked offline", func(t *testing.T) { checkDocuments(t, cli, node) })
	t.Run("the machine becomes another node", func(t *testing.T) {
		view := p.onboard(t, cli, l.Record().Machines[0])
		testkit.Succeeds(t, "the end of the onboarding", 5*time.Minute, func() error {
			p.do(t, http.MethodGet, "/api/v1/admin/onboardings/"+view.ID, nil, http.StatusOK, &view)
			if strings.HasPrefix(view.Status, "failed") {
				t.Fatalf("onboarding ended: %+v", view)
			}
			if view.Status != "completed" {
				return fmt.Errorf("it is %s in %s", view.Status, view.Stage)
			}
			return nil
		})
		if again := p.nodeID(t, hostname); again == node {
			t.Error("the id of a deleted node was used again")
		}
	})
}

// rootIsInstalledAway lets a tenant with sudo plant what outlives its account. Nothing
// that goes by the word of that installation takes the node back; a new one does,
// and its certificate says what was known.
func (p *plane) rootIsInstalledAway(t *testing.T, r rack.Rack, m tenant, node, hostname string,
	run func(string) string,
) {
	cli := p.cli(t)
	rented, over := m.logsIn(t, p, r, node, "root")
	for _, line := range []string{
		`printf "[Service]\nExecStart=/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n" > /etc/systemd/system/planted.service && systemctl enable --now planted.service`,
		`cp /bin/sh /usr/local/bin/planted && chmod 4755 /usr/local/bin/planted`,
		`useradd --uid 1500 --create-home planted`,
		`f=$(readlink -f /proc/$(systemctl show --property MainPID --value gpuaas-node-agent)/exe) && cp -p $f /root/agent && printf x >> /root/agent && mv /root/agent $f`,
	} {
		over.do(t, "sudo -n sh -c '"+line+"'")
	}
	for _, mode := range []string{"soft_reset", "retire", "storage_cleanup"} {
		var plan struct {
			Blocks []struct{ Code, Message, Remedy string }
		}
		p.do(t, http.MethodPost, "/api/v1/admin/nodes/"+node+"/decommission/plan",
			map[string]any{"mode": mode, "end_allocation": true}, http.StatusOK, &plan)
		if len(plan.Blocks) != 1 || plan.Blocks[0].Code != "node_root_tainted" ||
			!strings.Contains(plan.Blocks[0].Remedy, "gpuaas node reimage "+hostname) {
			t.Errorf("%s: %+v", mode, plan.Blocks)
		}
	}
	if _, stderr, code := command(t, cli, "node", "reset", hostname, "--reason", "test", "--yes",
		"--end-allocation"); code == 0 ||
		!strings.Contains(stderr, "somebody had root") {
		t.Errorf("a soft reset ends with %d: %s", code, stderr)
	}
	m.release(t, rented.AllocationID)
	cleanup := m.becomes(t, rented.AllocationID, "released").CleanupID
	if got := run("test -e /etc/systemd/system/planted.service -o -e /usr/local/bin/planted && echo there || echo gone; id planted 2>/dev/null || true"); got != "gone" {
		t.Errorf("what was planted is %s", got)
	}
	shown := succeed(t, cli, "certificate", "list", "--node", node, "-o", "json")
	var list []struct {
		ID           string `json:"certificate_id"`
		Decommission string `json:"decommission_id"`
	}
	if err := json.Unmarshal([]byte(shown), &list); err != nil {
		t.Fatal(err)
	}
	for _, c := range list {
		if c.Decommission != cleanup {
			continue
		}
		text := succeed(t, cli, "certificate", "show", c.ID)
		for _, says := range []string{"root (sudo)", "decommission " + cleanup, "NOT INDEPENDENT", "firmware, BMC"} {
			if !strings.Contains(text, says) {
				t.Errorf("the certificate does not say %q:\n%s", says, text)
			}
		}
		return
	}
	t.Errorf("the reimage has no certificate: %s", shown)
}

// checkDocuments verifies all documents of a node with nothing but their files
// and the public keys, and sees a change of one byte refused.
func checkDocuments(t *testing.T, cli []string, node string) {
	t.Helper()
	folder := t.TempDir()
	keys := filepath.Join(folder, "keys.json")
	write := func(file, text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(keys, succeed(t, cli, "certificate", "keys", "-o", "json"))
	var list []struct {
		ID string `json:"certificate_id"`
	}
	if err := json.Unmarshal([]byte(succeed(t, cli, "certificate", "list", "--node", node, "-o", "json")),
		&list); err != nil {
		t.Fatal(err)
	}
	if len(list) != 5 {
		t.Fatalf("%d documents were issued", len(list))
	}
	verify := []string{"certificate", "verify", "--keys", keys}
	for i, c := range list {
		file := filepath.Join(folder, fmt.Sprintf("%d.json", i))
		write(file, succeed(t, cli, "certificate", "show", c.ID, "--format", "json"))
		verify = append(verify, file)
	}
	succeed(t, nil, verify...)
	raw, err := os.ReadFile(filepath.Join(folder, "0.json"))
	if err != nil {
		t.Fatal(err)
	}
	forged := filepath.Join(folder, "forged.json")
	write(forged, strings.Replace(string(raw), `"region":"`, `"region":"x`, 1))
	if _, stderr, code := command(t, nil, "certificate", "verify", "--keys", keys, forged); code == 0 ||
		!strings.Contains(stderr, "/node/region") {
		t.Errorf("a changed document ends with %d: %s", code, stderr)
	}
}
