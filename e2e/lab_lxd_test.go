package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"gpuaas/sim/lab"
	"gpuaas/sim/maas"
	"gpuaas/sim/maas/fleet"
	"gpuaas/sim/maas/region"
	"gpuaas/sim/rack"
	"gpuaas/stack"
	"gpuaas/stack/stacktest"
	"gpuaas/testkit"
)

// onboardingView is the part of an onboarding that tests look at.
type onboardingView struct {
	ID       string `json:"onboarding_id"`
	Hostname string `json:"hostname"`
	Status   string `json:"status"`
	Stage    string `json:"current_stage"`
	Code     string `json:"error_code"`
	Message  string `json:"error_message"`
}

// startPlaneForLab runs a control plane that the machines of a lab reach, and
// that reaches them.
func startPlaneForLab(t *testing.T, r rack.Rack, l *lab.Lab) *plane {
	t.Helper()
	_, port, err := net.SplitHostPort(freeAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	address := net.JoinHostPort(r.HostAddress(), port)
	return startPlane(t, stacktest.Start(t, stack.Options{}).Endpoints(), planeOptions{env: []string{
		"GPUAAS_NODES_LISTEN=" + address, "GPUAAS_NODES_URL=https://" + address, "GPUAAS_NODES_SSH_PROXY=" + l.SSHProxy,
		"GPUAAS_NODES_AGENT_FOLDER=" + buildAgents(t), "GPUAAS_NODES_AGENT_VERSION=" + firstAgent,
		"GPUAAS_NODES_WITHOUT_GPUS=true",
	}})
}

// TestLXDMachineIsOnboarded is the way of a server from the rack to a node on a
// real Linux system: only the installer of MAAS is imitated. cloud-init fetches
// and carries out the first boot, sshd lets the deploy user in, a timer of
// systemd reports to MAAS, and the agent enrols.
func TestLXDMachineIsOnboarded(t *testing.T) {
	t.Parallel()
	r := openRack(t, rack.LXD)
	l, err := lab.Open(lab.Options{Rack: r, Region: maas.Options{
		Control: "127.0.0.1:0", Fleet: fleet.Options{Machines: 1, Stage: "new"},
		Timing: region.Timing{Pace: region.PaceTriangular, Ranges: region.Faster(500)},
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	state := t.TempDir()
	if err := l.Record().Save(lab.RecordFile(state)); err != nil {
		t.Fatal(err)
	}
	p := startPlaneForLab(t, r, l)
	cli := p.cli(t)
	succeed(t, cli, "sim", "site", "--state", state, "--csv", state+"/lab.csv")
	began := time.Now()
	view := p.onboard(t, cli, l.Record().Machines[0])
	testkit.Succeeds(t, "the end of the onboarding", 5*time.Minute, func() error {
		p.do(t, http.MethodGet, "/api/v1/admin/onboardings/"+view.ID, nil, http.StatusOK, &view)
		switch {
		case view.Status == "completed":
			return nil
		case strings.HasPrefix(view.Status, "failed"):
			t.Fatalf("onboarding ended: %+v", view)
		}
		return fmt.Errorf("it is %s in %s", view.Status, view.Stage)
	})
	t.Logf("a real machine became a node after %s", time.Since(began).Round(100*time.Millisecond))
	if err := p.nodeIs(view.Hostname, "active"); err != nil {
		t.Error(err)
	}
	checkOnboarded(t, r, l)
	t.Run("what is sown again comes from the agent", func(t *testing.T) { reseeds(t, cli, l, view.Hostname) })
	p.decommissionsMachine(t, r, l, view.Hostname)
}

// onboard asks for one machine through the API.
func (p *plane) onboard(t *testing.T, cli []string, m lab.Machine) onboardingView {
	t.Helper()
	var site struct {
		ID string `json:"site_id"`
	}
	if err := json.Unmarshal([]byte(succeed(t, cli, "site", "get", "lab", "-o", "json")), &site); err != nil {
		t.Fatal(err)
	}
	var view onboardingView
	p.do(t, http.MethodPost, "/api/v1/admin/onboardings", map[string]any{
		"site_id": site.ID, "sku_id": "h200-sxm-baremetal-8g", "hostname": m.Hostname, "ipmi_ip": m.IPMI,
	}, http.StatusAccepted, &view)
	return view
}

// checkOnboarded looks at the machine itself.
func checkOnboarded(t *testing.T, r rack.Rack, l *lab.Lab) {
	t.Helper()
	machines, err := r.Machines(t.Context())
	if err != nil || len(machines) != 1 {
		t.Fatalf("machines: %v, %v", machines, err)
	}
	m := machines[0]
	if err := m.Booted(t.Context()); err != nil {
		t.Error(err)
	}
	for line, want := range map[string]string{
		"ls /etc/ssh/ssh_host_*_key":           "/etc/ssh/ssh_host_ed25519_key",
		"ls /etc/maas/maas-run-scripts.sha256": "/etc/maas/maas-run-scripts.sha256",

		"cloud-id": "maas",
		"systemctl is-enabled maas_hardware_sync.timer":                                             "enabled",
		"systemctl is-active maas_hardware_sync.timer":                                              "active",
		"systemctl is-active gpuaas-node-agent":                                                     "active",
		"systemctl show -P Result maas_hardware_sync.service":                                       "success",
		"stat -c '%U %a' /etc/maas/maas-machine-creds.yml":                                          "root 600",
		"getent shadow " + l.DeployUser + " | cut -d: -f2,8":                                        "!*:1",
		"ls /etc/sudoers.d/gpuaas-* ~" + l.DeployUser + "/.ssh/authorized_keys 2>/dev/null | wc -l": "0",
		"grep -c succeeded /var/lib/gpuaas-firstboot/*.json | grep -vc ':1$'":                       "0",
		"ls /var/lib/gpuaas-firstboot/layers | wc -l":                                               "0",
		"grep -rlF '" + l.DeployPassword + "' /etc /var/lib /run 2>/dev/null | wc -l":               "0",
		"journalctl -q -b --no-pager 2>/dev/null | grep -cF '" + l.DeployPassword + "' || true":     "0",
	} {
		out, err := m.Exec(t.Context(), nil, "sh", "-c", line+" || true")
		if err != nil || strings.TrimSpace(out) != want {
			t.Errorf("%s: %q, %v, want %q", line, strings.TrimSpace(out), err, want)
		}
	}
	if b := l.Overview()[0]; b.LastSync == nil || time.Since(*b.LastSync) > 5*time.Minute {
		t.Errorf("MAAS last heard of the machine at %v", b.LastSync)
	}
}

// reseeds lets the agent set hardware sync up anew, with a token that only the
// node of this machine is given.
func reseeds(t *testing.T, cli []string, l *lab.Lab, hostname string) {
	before := l.Overview()[0]
	succeed(t, cli, "node", "task", "run", hostname, "node.hw_sync_reseed", "--reason", "test", "--wait",
		"--param", "maas_url="+l.URL, "--param", "system_id="+before.SystemID, "--param", "interval=1m")
	testkit.Succeeds(t, "the timer that the agent has started", time.Minute, func() error {
		if now := l.Overview()[0]; !now.LastSync.After(*before.LastSync) {
			return fmt.Errorf("MAAS last heard of it at %s", now.LastSync)
		}
		return nil
	})
}
