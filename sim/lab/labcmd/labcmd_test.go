package labcmd_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/cobra"

	"gpuaas/contract/apiclient"
	"gpuaas/sim/lab"
	"gpuaas/sim/lab/labcmd"
	"gpuaas/sim/maas"
	"gpuaas/sim/maas/fleet"
)

// openLab is a lab as gpuaas up leaves it in a state folder.
func openLab(t *testing.T) (*lab.Lab, string) {
	t.Helper()
	l, err := lab.Open(lab.Options{Region: maas.Options{
		Control: "127.0.0.1:0",
		Fleet:   fleet.Options{Machines: 3, Stage: "new"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	state := t.TempDir()
	if err := l.Record().Save(lab.RecordFile(state)); err != nil {
		t.Fatal(err)
	}
	return l, state
}

func run(t *testing.T, c *cobra.Command, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	c.SetArgs(args)
	c.SetOut(&out)
	c.SetErr(&out)
	c.SilenceUsage, c.SilenceErrors = true, true
	err := c.ExecuteContext(t.Context())
	return out.String(), err
}

func TestMachines(t *testing.T) {
	l, state := openLab(t)
	machines := func(args ...string) string {
		t.Helper()
		out, err := run(t, labcmd.MachinesCommand(), append([]string{"--state", state}, args...)...)
		if err != nil {
			t.Errorf("%v: %v", args, err)
		}
		return out
	}
	if out := machines("list"); strings.Count(out, "New") != 3 || !strings.Contains(out, "gpu-00002") ||
		!strings.Contains(out, "10.128.0.2") {
		t.Errorf("list:\n%s", out)
	}
	if out := machines("power-on", "gpu-00002"); out != "gpu-00002 is switched on\n" {
		t.Errorf("said %q", out)
	}
	if b := l.Overview()[1]; b.Power != "on" {
		t.Errorf("%+v", b)
	}
	machines("power-off", "10.128.0.2")
	before := l.SystemIDs()[0]
	machines("recreate", "gpu-00001")
	if _, known := l.Brief(before); known {
		t.Error("the machine is still known by its old id")
	}
	machines("delete", "gpu-00003")
	if l.Count() != 2 {
		t.Errorf("%d machines are left", l.Count())
	}
	machines("fail", "gpu-00002", "datasource", "--count", "2")
	if rules := l.Faults.Rules(); len(rules) != 1 || rules[0].Machine != "gpu-00002" || rules[0].Count != 2 {
		t.Errorf("%+v", rules)
	}
	machines("fail", "gpu-0000?", "deploy")
	machines("fail", "gpu-00002", "erase-hangs")
	machines("fail", "gpu-00002", "power-off")
	machines("fail", "gpu-00002", "release-ignored")
	if rules := l.Faults.Rules(); len(rules) != 5 || rules[2].Phase != "erase" ||
		rules[3].Operation != "machine.power_off" || rules[4].Operation != "machine.release" {
		t.Errorf("%+v", rules)
	}
	machines("heal", "gpu-00002") // that of all machines goes on for the others
	if rules := l.Faults.Rules(); len(rules) != 1 || rules[0].Machine != "gpu-0000?" || len(rules[0].Except) != 1 {
		t.Errorf("%+v", rules)
	}
	machines("heal")
	if rules := l.Faults.Rules(); len(rules) != 0 {
		t.Errorf("%+v", rules)
	}
	for what, args := range map[string][]string{
		"no machine is called": {"release", "nobody", "--state", state},
		"called \"nope\"":      {"fail", "nope", "deploy", "--state", state},
		"cannot fail":          {"fail", "gpu-00002", "hope", "--state", state},
		"start gpuaas up":      {"list", "--state", t.TempDir()},
	} {
		if _, err := run(t, labcmd.MachinesCommand(), args...); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%v: %v", args, err)
		}
	}
}

// api is the part of a control plane that a site needs.
type api struct {
	mu       sync.Mutex
	site     map[string]any
	profile  map[string]any
	requests []string
}

const siteID, profileID = "0191e2f0-0000-7000-8000-000000000001", "0191e2f0-0000-7000-8000-000000000002"

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	path := strings.TrimPrefix(r.URL.Path, "/api/v1/admin/maas-sites")
	var body map[string]any
	if r.Method != http.MethodGet {
		a.requests = append(a.requests, r.Method+" "+path)
		_ = json.NewDecoder(r.Body).Decode(&body) // a body that is none is found by the test
	}
	status, answer := http.StatusOK, any(a.site)
	switch {
	case r.Method == http.MethodGet && path == "":
		list := []any{}
		if a.site != nil {
			list = append(list, a.site)
		}
		answer = map[string]any{"items": list}
	case r.Method == http.MethodPost && path == "":
		body["site_id"], body["version"] = siteID, 1
		a.site, status, answer = body, http.StatusCreated, body
		a.profile = map[string]any{"profile_id": profileID, "name": "default", "version": 1, "distro_series": "ubuntu/jammy"}
	case strings.HasSuffix(path, "/profiles"):
		answer = map[string]any{"items": []any{a.profile}}
	case strings.Contains(path, "/profiles/"):
		for k, v := range body {
			a.profile[k] = v
		}
		answer = a.profile
	case strings.HasSuffix(path, "/credentials"):
		a.site["credentials"] = body
	case r.Method == http.MethodPatch:
		for k, v := range body {
			a.site[k] = v
		}
	default:
		status = http.StatusNotFound
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer)
}

func (a *api) said() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	said := a.requests
	a.requests = nil
	return said
}

func TestSite(t *testing.T) {
	l, state := openLab(t)
	a := &api{}
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	connect := func(*cobra.Command) (*apiclient.Client, error) {
		return apiclient.New(apiclient.Config{URL: server.URL, Token: "t"})
	}
	file := filepath.Join(t.TempDir(), "machines.csv")
	site := func() string {
		t.Helper()
		out, err := run(t, labcmd.SiteCommand(connect), "--state", state, "--csv", file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(out, l.DeployPassword) || strings.Contains(out, l.Token) {
			t.Error("the output holds a secret")
		}
		return out
	}
	out := site()
	if want := "gpuaas onboard --csv " + file +
		" --site lab --sku h200-sxm-baremetal-8g --watch"; !strings.Contains(out, want) ||
		!strings.Contains(out, "3 machines") {
		t.Errorf("said:\n%s", out)
	}
	if said := fmt.Sprint(a.said()); !strings.HasPrefix(said, "[POST  ") || strings.Count(said, "credentials") != 1 ||
		strings.Count(said, "/profiles/") != 1 {
		t.Errorf("the first time: %s", said)
	}
	sent, _ := a.site["credentials"].(map[string]any)
	if a.site["api_base_url"] != l.URL || a.site["deploy_user"] != l.DeployUser || sent["api_token"] != l.Token ||
		sent["deploy_password"] != l.DeployPassword || a.profile["distro_series"] != lab.Image {
		t.Errorf("site %v", a.site["name"])
	}
	rows, err := os.ReadFile(file)
	if err != nil ||
		string(rows) != "hostname,ipmi_ip\ngpu-00001,10.128.0.1\ngpu-00002,10.128.0.2\ngpu-00003,10.128.0.3\n" {
		t.Errorf("%q, %v", rows, err)
	}

	if err := l.Happen("gpu-00002", "redeploy"); err != nil { // somebody uses it
		t.Fatal(err)
	}
	out = site()
	if said := a.said(); len(said) != 1 || !strings.HasSuffix(said[0], "credentials") {
		t.Errorf("the second time: %v", said)
	}
	if rows, err := os.ReadFile(file); err != nil || strings.Contains(string(rows), "gpu-00002") ||
		!strings.Contains(out, "2 machines") {
		t.Errorf("%q, %v", rows, err)
	}

	a.site["api_base_url"] = "http://elsewhere.example/MAAS"
	site()
	if said := a.said(); len(said) != 2 || !strings.HasPrefix(said[0], "PATCH") || a.site["api_base_url"] != l.URL {
		t.Errorf("a site of another lab: %v", said)
	}
}
