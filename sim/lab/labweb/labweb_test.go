package labweb_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"gpuaas/sim/lab"
	"gpuaas/sim/lab/happening"
	"gpuaas/sim/lab/labweb"
	"gpuaas/sim/maas"
	"gpuaas/sim/maas/fault"
	"gpuaas/sim/maas/fleet"
)

// page is a browser before a lab.
type page struct {
	t   *testing.T
	lab *lab.Lab
	web http.Handler
}

func open(t *testing.T) *page {
	t.Helper()
	l, err := lab.Open(lab.Options{Region: maas.Options{Fleet: fleet.Options{Machines: 3, Stage: "ready"}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return &page{t, l, labweb.Handler(l)}
}

// ask sends one request and reads the answer into out.
func (p *page) ask(method, path, body string, status int, out any) {
	p.t.Helper()
	w := httptest.NewRecorder()
	p.web.ServeHTTP(w, httptest.NewRequestWithContext(p.t.Context(), method, path, strings.NewReader(body)))
	if w.Code != status || w.Header().Get("Cache-Control") != "no-store" {
		p.t.Errorf("%s %s %s: status %d, want %d, %v: %s", method, path, body, w.Code, status, w.Header(), w.Body)
	}
	if out == nil {
		return
	}
	if err := json.Unmarshal(w.Body.Bytes(), out); err != nil {
		p.t.Errorf("%s %s: %v", method, path, err)
	}
}

func (p *page) machine(hostname string) labweb.Machine {
	p.t.Helper()
	var all []labweb.Machine
	p.ask(http.MethodGet, "/machines", "", http.StatusOK, &all)
	i := slices.IndexFunc(all, func(m labweb.Machine) bool { return m.Hostname == hostname })
	if i < 0 {
		p.t.Fatalf("%s is not among %+v", hostname, all)
	}
	return all[i]
}

func (p *page) happen(name, what string) string {
	p.t.Helper()
	var now labweb.Happened
	p.ask(http.MethodPost, "/machines/"+name+"/happen", fmt.Sprintf(`{"what":%q}`, what), http.StatusOK, &now)
	return now.Said
}

func (p *page) faults(hostname string, want ...string) {
	p.t.Helper()
	if m := p.machine(hostname); !slices.Equal(m.Faults, want) {
		p.t.Errorf("faults of %s are %q, want %q", hostname, m.Faults, want)
	}
}

func TestLab(t *testing.T) {
	p := open(t)
	var described labweb.Lab
	p.ask(http.MethodGet, "/", "", http.StatusOK, &described)
	want := labweb.Lab{
		Name: "lab", Kind: lab.Agents, RegionCode: "lab", SKU: lab.SKU, Image: lab.Image, URL: p.lab.URL, Machines: 3,
		PXEIface:     lab.BootIface,
		NodePXEIface: lab.PXEIface, DeployUser: p.lab.DeployUser, DeploySSHIface: lab.PXEIface, MaxParallel: lab.AtOnce,
		Credentials: labweb.Credentials{
			APIToken: p.lab.Token, DeployPassword: p.lab.DeployPassword,
			Power: labweb.Power{User: lab.BMCUser, Pass: lab.BMCPassword},
		},
	}
	if described != want {
		t.Errorf("%+v", described)
	}
	var possible []happening.Happening
	p.ask(http.MethodGet, "/happenings", "", http.StatusOK, &possible)
	if len(possible) != len(happening.All()) || possible[0].What != "release" || possible[0].Label == "" ||
		possible[0].Explanation == "" {
		t.Errorf("%+v", possible)
	}
	m := p.machine("gpu-00002")
	if b := p.lab.Overview()[1]; m.SystemID != b.SystemID || m.Status != "Ready" || m.Power != b.Power ||
		m.BMC != "10.128.0.2" || m.Faults == nil || m.Addresses == nil {
		t.Errorf("%+v", m)
	}
}

func TestHappenings(t *testing.T) {
	p := open(t)
	if said := p.happen("gpu-00001", "power-on"); said != "gpu-00001 is switched on" {
		t.Errorf("said %q", said)
	}
	if m := p.machine("gpu-00001"); m.Power != "on" {
		t.Errorf("%+v", m)
	}
	before := p.machine("gpu-00001").SystemID
	p.happen(before, "recreate")
	if p.machine("gpu-00001").SystemID == before {
		t.Error("the machine has its old id")
	}
	p.happen("10.128.0.3", "delete")
	if p.lab.Count() != 2 {
		t.Errorf("%d machines are left", p.lab.Count())
	}
}

func TestFaultsAndHealing(t *testing.T) {
	p := open(t)
	if said := p.happen("gpu-00001", "deploy"); !strings.Contains(said, "gpu-00001") {
		t.Errorf("said %q", said)
	}
	p.happen("gpu-00001", "deploy") // twice is once
	p.happen("gpu-00001", "release-fails")
	if _, err := p.lab.Faults.Add(fault.Rule{Machine: "gpu-0000?", Fault: fault.FailErase}); err != nil {
		t.Fatal(err)
	}
	if n := len(p.lab.Faults.Rules()); n != 3 {
		t.Errorf("%d rules are in force", n)
	}
	p.faults("gpu-00001", "deploy", "erase", "release-fails")
	p.faults("gpu-00002", "erase")
	p.ask(http.MethodPost, "/machines/gpu-00001/heal", "", http.StatusOK, nil)
	p.faults("gpu-00001")
	p.faults("gpu-00002", "erase")

	for what, becomes := range map[string]string{"broken": "Broken", "hardware": "Failed testing"} {
		p.happen("gpu-00002", what)
		p.happen("gpu-00002", "bmc")
		if m := p.machine("gpu-00002"); m.Status != becomes || !slices.Contains(m.Faults, "bmc") {
			t.Errorf("after %s: %+v", what, m)
		}
		p.ask(http.MethodPost, "/machines/gpu-00002/heal", "", http.StatusOK, nil)
		if m := p.machine("gpu-00002"); m.Status != "Ready" || len(m.Faults) > 0 {
			t.Errorf("healed of %s: %+v", what, m)
		}
	}
}

func TestRefusals(t *testing.T) {
	p := open(t)
	for _, c := range []struct {
		method, path, body string
		status             int
		code               string
	}{
		{http.MethodPost, "/machines/nobody/happen", `{"what":"delete"}`, 404, "machine_not_found"},
		{http.MethodPost, "/machines/nobody/heal", "", 404, "machine_not_found"},
		{http.MethodPost, "/machines/gpu-00001/happen", `{"what":"hope"}`, 422, "happening_unknown"},
		{http.MethodPost, "/machines/gpu-00001/happen", `{`, 400, "body_invalid"},
		{http.MethodPost, "/machines/gpu-00001/happen", `{"what":"` + strings.Repeat("x", 5000) + `"}`, 400, "body_invalid"},
		{http.MethodPost, "/machines/gpu-00001/heal", "", 409, "happening_impossible"},
		{http.MethodGet, "/elsewhere", "", 404, "not_found"},
		{http.MethodDelete, "/machines", "", 404, "not_found"},
	} {
		var problem struct {
			Type, Title, Code, Detail string
			Status                    int
		}
		p.ask(c.method, c.path, c.body, c.status, &problem)
		if problem.Code != c.code || problem.Status != c.status || problem.Type != "urn:gpuaas:problem:"+c.code ||
			problem.Title == "" || problem.Detail == "" {
			t.Errorf("%s %s: %+v", c.method, c.path, problem)
		}
	}
	w := httptest.NewRecorder()
	w.Header().Set("X-Correlation-Id", "c-1")
	p.web.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/elsewhere", nil))
	if !strings.Contains(w.Body.String(), `"correlation_id":"c-1"`) {
		t.Errorf("the problem is %s", w.Body)
	}
	if rules := p.lab.Faults.Rules(); len(rules) > 0 || p.lab.Count() != 3 {
		t.Errorf("a refusal changed something: %+v", rules)
	}
}
