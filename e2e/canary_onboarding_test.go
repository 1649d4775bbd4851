package e2e

import (
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"gpuaas/sim/lab"
	"gpuaas/sim/maas"
	"gpuaas/sim/maas/fault"
	"gpuaas/sim/maas/fleet"
	"gpuaas/testkit"
)

var (
	bearer = regexp.MustCompile(`Authorization: Bearer ([A-Za-z0-9_-]{20,})`)
	// The last whole line of a private key: earlier ones are alike in all keys.
	hostKey = regexp.MustCompile(`([A-Za-z0-9+/]{64})(?:\\n|\s)+[A-Za-z0-9+/=]+(?:\\n|\s)+-----END OPENSSH PRIVATE KEY`)
)

// openCanaryLab opens a lab, and names what a control plane needs to reach it.
func openCanaryLab(t *testing.T) (*lab.Lab, []string) {
	t.Helper()
	l, err := lab.Open(lab.Options{Region: maas.Options{
		Control: "127.0.0.1:0",
		Fleet:   fleet.Options{Machines: 2, Stage: "new"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	address := freeAddress(t)
	return l, []string{
		"GPUAAS_NODES_LISTEN=" + address, "GPUAAS_NODES_URL=https://" + address,
		"GPUAAS_NODES_SSH_PROXY=" + l.SSHProxy, onLoopback(t, l.URL),
	}
}

// useSite gives a site secrets, onboards a machine by them and lets another one
// fail, cleans, installs anew and decommissions the first, and returns every secret that
// took part: those of the site, those that
// the machines were handed, and what they were handed whole.
func useSite(t *testing.T, p *plane, l *lab.Lab) map[string]string {
	t.Helper()
	r := l.Record()
	r.BMCPassword = "canary-of-the-bmc-3b1f0a77c2"
	state := t.TempDir()
	if err := r.Save(lab.RecordFile(state)); err != nil {
		t.Fatal(err)
	}
	cli := p.cli(t)
	succeed(t, cli, "sim", "site", "--state", state, "--csv", filepath.Join(state, "lab.csv"))
	if _, err := l.Faults.Add(fault.Rule{Machine: r.Machines[1].Hostname, Fault: fault.FailDeploy}); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"completed", "failed_manual_intervention"} {
		view := p.onboard(t, cli, r.Machines[i])
		testkit.Succeeds(t, "an onboarding to be "+want, 2*time.Minute, func() error {
			p.do(t, http.MethodGet, "/api/v1/admin/onboardings/"+view.ID, nil, http.StatusOK, &view)
			if view.Status != want {
				return fmt.Errorf("it is %s in %s", view.Status, view.Stage)
			}
			return nil
		})
	}
	out := map[string]string{
		"secret of the MAAS token": r.Token[strings.LastIndex(r.Token, ":")+1:], "deploy password": r.DeployPassword,
		"BMC password": r.BMCPassword,
	}
	for _, m := range l.Overview() {
		if m.Hostname != r.Machines[0].Hostname {
			continue
		}
		userData, _, err := l.UserData(m.SystemID)
		if err != nil {
			t.Fatal(err)
		}
		token := bearer.FindSubmatch(userData)
		if token == nil {
			t.Fatalf("no token in %d bytes of user data", len(userData))
		}
		out["enrolment token"] = string(token[1])
		key := hostKey.FindSubmatch(userData)
		if key == nil {
			t.Fatalf("no host key in %d bytes of user data", len(userData))
		}
		out["private host key"] = string(key[1])
	}
	node := p.nodeID(t, r.Machines[0].Hostname)
	p.operate(t, node, map[string]any{"mode": "soft_reset"})
	p.operate(t, node, map[string]any{"mode": "reimage", "erase": "none"})
	for _, m := range l.Overview() {
		if m.Hostname == r.Machines[0].Hostname {
			userData, _, err := l.UserData(m.SystemID)
			if err != nil {
				t.Fatal(err)
			}
			out["enrolment token of the reimage"] = string(bearer.FindSubmatch(userData)[1])
		}
	}
	p.operate(t, node, map[string]any{"mode": "full_decommission", "erase": "none"})
	return out
}
