package maas_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gpuaas/sim/maas"
	"gpuaas/sim/maas/fault"
	"gpuaas/sim/maas/region"
)

func (c *client) fault(kind fault.Kind, phase string) {
	c.t.Helper()
	if _, err := c.region.Faults.Add(fault.Rule{Fault: kind, Phase: phase}); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) rule(r fault.Rule) {
	c.t.Helper()
	if _, err := c.region.Faults.Add(r); err != nil {
		c.t.Fatal(err)
	}
}

func TestPhasesFailAsTheyDoInMAAS(t *testing.T) {
	for name, tt := range map[string]struct {
		rule  fault.Rule
		stage string
		op    string
		form  url.Values
		want  region.Status
		said  string
	}{
		"commissioning": {
			fault.Rule{Fault: fault.FailCommissioning},
			"new", "commission", nil, region.FailedCommissioning,
			"Failed commissioning",
		},
		"storage": {
			fault.Rule{Fault: fault.FailDeploy, Phase: "storage"},
			"ready", "deploy", nil,
			region.FailedDeployment, "Node installation failure: 'curtin' configuring storage",
		},
		"image": {
			fault.Rule{Fault: fault.FailDeploy},
			"ready", "deploy", nil, region.FailedDeployment,
			"Node installation failure: 'curtin' acquiring image",
		},
		"configuration": {
			fault.Rule{Fault: fault.FailDeploy, Phase: "configure"},
			"ready", "deploy", nil,
			region.FailedDeployment, "Node installation failure: 'curtin' configuring installed system",
		},
		"cloud-init": {
			fault.Rule{Fault: fault.PhaseFails, Phase: "final"},
			"ready", "deploy", nil, region.Deployed,
			"Node post-installation failure: 'cloudinit' running modules for final",
		},
		"erase": {
			fault.Rule{Fault: fault.FailErase},
			"deployed", "release",
			url.Values{"erase": {"true"}},
			region.FailedDiskErasing, "Marking node failed: Failed to erase disks.",
		},
		"power": {
			fault.Rule{Fault: fault.BMCFailure, Power: "on"},
			"ready", "deploy", nil, region.FailedDeployment,
			"Failed to power on node: Connection timed out while performing power action",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := start(t, maas.Options{Fleet: gpus(1, tt.stage)})
			id := c.region.SystemIDs()[0]
			c.rule(tt.rule)
			c.op(id, tt.op, tt.form)
			c.clock.Advance(time.Minute)
			c.expect(id, tt.want)
			if said := strings.Join(c.events(id), "\n"); !strings.Contains(said, tt.said) {
				t.Errorf("said %s", said)
			}
		})
	}
}

// Erasing that hangs goes on until somebody stops it; then the machine can be
// released without an erase.
func TestErasingCanHang(t *testing.T) {
	c := start(t, maas.Options{Fleet: gpus(1, "deployed")})
	id := c.region.SystemIDs()[0]
	c.fault(fault.HangErase, "")
	c.op(id, "release", url.Values{"erase": {"true"}, "secure_erase": {"true"}})
	c.clock.Advance(24 * time.Hour)
	c.expect(id, region.DiskErasing)
	c.op(id, "abort", nil)
	c.expect(id, region.FailedDiskErasing)
	c.op(id, "release", nil)
	c.clock.Advance(time.Minute)
	c.expect(id, region.Ready)
	if said := strings.Join(c.events(id), "\n"); strings.Contains(said, "Disks erased") {
		t.Errorf("said %s", said)
	}
}

// A request can be answered as if it was done.
func TestRequestsCanBeIgnored(t *testing.T) {
	c := start(t, maas.Options{Fleet: gpus(1, "deployed")})
	id := c.region.SystemIDs()[0]
	c.rule(fault.Rule{
		Fault: fault.Ignored, Operation: "machine.release", Count: 1,
		Set: map[string]any{"status_name": "Releasing"},
	})
	if a := c.call("POST", "/machines/"+id+"/?op=release", url.Values{}); a.status != 200 ||
		!strings.Contains(a.body, `"Releasing"`) {
		t.Errorf("a release is answered %d %s", a.status, a.body)
	}
	c.expect(id, region.Deployed)
	c.rule(fault.Rule{Fault: fault.Ignored, Operation: "machine.power_off", Count: 1})
	if a := c.call("POST", "/machines/"+id+"/?op=power_off", url.Values{}); a.status != 200 {
		t.Errorf("a power off is answered %d", a.status)
	}
	if a := c.ok("GET", "/machines/"+id+"/?op=query_power_state", nil); !strings.Contains(a.body, "on") {
		t.Errorf("the power is %s", a.body)
	}
}

func TestTokenAndSyncCanBeWithheld(t *testing.T) {
	c := start(t, maas.Options{Fleet: gpus(1, "ready")})
	id := c.region.SystemIDs()[0]
	c.fault(fault.NoToken, "")
	c.fault(fault.NoSync, "")
	c.op(id, "deploy", url.Values{"enable_hw_sync": {"true"}})
	c.clock.Advance(time.Minute)
	first := *c.expect(id, region.Deployed).LastSync
	if a := c.ok("GET", "/machines/"+id+"/?op=get_token", nil); a.body != "null" {
		t.Errorf("token %s", a.body)
	}
	c.clock.Advance(2 * time.Hour)
	if last := *c.machine(id).LastSync; last != first {
		t.Errorf("synced at %s", last)
	}
}

func TestABMCThatFailsLeavesTraces(t *testing.T) {
	c := start(t, maas.Options{Fleet: gpus(1, "ready")})
	id := c.region.SystemIDs()[0]
	c.rule(fault.Rule{Fault: fault.BMCFailure, Count: 1})
	if a := c.call("POST", "/machines/"+id+"/?op=commission", url.Values{}); a.status != 500 {
		t.Fatalf("answered %d", a.status)
	}
	m := c.expect(id, region.Ready)
	if m.Owner == nil || len(m.BootDisk.Partitions) != 0 || len(m.Interfaces[0].Links) != 0 {
		t.Errorf("left %+v", m)
	}
}

func TestRequestsGoWrong(t *testing.T) {
	c := start(t, maas.Options{Fleet: gpus(2, "ready")})
	ids := c.region.SystemIDs()
	allocate := func(id string) (*http.Response, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		t.Cleanup(cancel)
		q, err := http.NewRequestWithContext(ctx, http.MethodPost, c.region.URL+"/api/2.0/machines/?op=allocate",
			strings.NewReader("system_id="+id))
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		q.Header.Set("Authorization", signature(c.region.Token, c.clock.Now(), ""))
		return http.DefaultClient.Do(q)
	}
	for _, tt := range []struct {
		rule   fault.Rule
		id     string
		status int // 0: the connection breaks
		after  region.Status
	}{
		{
			fault.Rule{Fault: fault.ErrorBefore, Operation: "machines.allocate", Count: 1, Status: 503, RetryAfter: "10"},
			ids[0], 503, region.Ready,
		},
		{fault.Rule{Fault: fault.Drop, Machine: ids[0], Count: 1}, ids[0], 0, region.Ready},
		{
			fault.Rule{Fault: fault.ErrorAfter, Machine: "gpu-00001", Operation: "machines.*", Count: 1},
			ids[0], 500,
			region.Allocated,
		},
		{fault.Rule{Fault: fault.LostAnswer, Operation: "machines.allocate", Count: 1}, ids[1], 0, region.Allocated},
	} {
		c.rule(tt.rule)
		p, err := allocate(tt.id)
		if err == nil {
			p.Body.Close()
		}
		if tt.status == 0 && err == nil || tt.status != 0 && (err != nil || p.StatusCode != tt.status) {
			t.Errorf("%s: %v %v", tt.rule.Fault, p, err)
		}
		if tt.rule.RetryAfter != "" && p.Header.Get("Retry-After") != tt.rule.RetryAfter {
			t.Errorf("Retry-After %q", p.Header.Get("Retry-After"))
		}
		c.expect(tt.id, tt.after)
		c.region.Faults.Clear()
	}
	c.rule(fault.Rule{
		Fault: fault.Lie, Operation: "machine.get", Count: 1,
		Set: map[string]any{"status_name": "Ready", "status": 4},
	})
	if m := c.machine(ids[0]); m.Status != region.Ready {
		t.Errorf("no lie: %s", m.StatusName)
	}
	c.expect(ids[0], region.Allocated)
	c.rule(fault.Rule{Fault: fault.Truncate, Operation: "machine.get", Count: 1})
	if a := c.call("GET", "/machines/"+ids[0]+"/", nil); json.Valid([]byte(a.body)) {
		t.Error("the answer is whole")
	}
}

func TestAHungRequestHoldsAPlace(t *testing.T) {
	c := start(t, maas.Options{Fleet: gpus(1, "ready"), InFlight: 1})
	c.rule(fault.Rule{Fault: fault.Hang, Operation: "zones.get"})
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		q, err := http.NewRequestWithContext(ctx, http.MethodGet, c.region.URL+"/api/2.0/zones/", nil)
		if err == nil {
			q.Header.Set("Authorization", signature(c.region.Token, c.clock.Now(), "hung"))
			_, err = http.DefaultClient.Do(q)
		}
		failed <- err
	}()
	for c.region.Faults.Rules()[0].Struck == 0 {
		select {
		case err := <-failed:
			t.Fatalf("did not hang: %v", err)
		default:
			runtime.Gosched()
		}
	}
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	c.ok("GET", "/machines/", nil) // its place is free again
}

func TestThingsHappenPastTheAPI(t *testing.T) {
	c := start(t, maas.Options{Fleet: gpus(3, "deployed")})
	ids := c.region.SystemIDs()
	happen := func(what, id string) {
		t.Helper()
		if err := c.region.Happen(id, what); err != nil {
			t.Fatal(err)
		}
		c.clock.Advance(time.Second)
	}
	before := c.machine(ids[0]).IPAddresses[0]
	if happen("change_ip", ids[0]); c.machine(ids[0]).IPAddresses[0] == before {
		t.Error("the address stayed")
	}
	if happen("power_off", ids[0]); c.machine(ids[0]).PowerState != "off" {
		t.Error("it runs")
	}
	if happen("redeploy", ids[0]); c.expect(ids[0], region.Deployed).DistroSeries != "noble" {
		t.Error("not the default image")
	}
	happen("release", ids[0])
	c.expect(ids[0], region.Ready)
	happen("delete", ids[0])
	if a := c.call("GET", "/machines/"+ids[0]+"/", nil); a.status != 404 {
		t.Errorf("deleted machine: %d", a.status)
	}
	mac := c.machine(ids[1]).Interfaces[0].MAC
	happen("recreate", ids[1])
	if id, ok := c.region.Find(mac); !ok || id == ids[1] {
		t.Errorf("recreated as %s", id)
	}
	happen("twin", ids[2])
	if a := c.ok("GET", "/machines/?status=new", nil); strings.Count(a.body, `"numanode_set"`) != 2 {
		t.Errorf("new machines: %.200s", a.body)
	}
}

// MAAS reports what happens to a deployed machine as a real one does, and
// leaves the same traces.
func TestADeployedMachineFailsAndHeals(t *testing.T) {
	c := start(t, maas.Options{Fleet: gpus(1, "deployed")})
	id := c.region.SystemIDs()[0]
	happen := func(what string) {
		t.Helper()
		if err := c.region.Happen(id, what); err != nil {
			t.Fatal(err)
		}
		c.clock.Advance(time.Minute)
	}
	refuse := func(what string) {
		t.Helper()
		if err := c.region.Happen(id, what); err == nil {
			t.Errorf("%s was possible", what)
		}
	}
	before := c.machine(id)
	if before.InstallationSet == nil {
		t.Fatal("a deployed machine was never installed")
	}
	refuse("heal")
	happen("fail")
	c.expect(id, region.FailedTesting)
	refuse("release")
	happen("heal")
	m := c.expect(id, region.Deployed)
	if *m.InstallationSet != *before.InstallationSet || m.OSystem == "" || m.PowerState != "on" ||
		m.IPAddresses[0] != before.IPAddresses[0] {
		t.Errorf("healed as %+v", m)
	}
	c.clock.Advance(time.Hour)
	if now := c.machine(id).LastSync; *now == *m.LastSync {
		t.Errorf("it does not sync any more: %s", *now)
	}
	happen("redeploy")
	m = c.expect(id, region.Deployed)
	if m.InstallationSet == nil || *m.InstallationSet == *before.InstallationSet || m.EnableHWSync {
		t.Errorf("redeployed as %+v", m)
	}
	said := c.events(id)
	for _, want := range []string{"Testing", "Failed testing", "Releasing", "Released", "Deploying", "Deployed"} {
		if !slices.Contains(said, want) {
			t.Errorf("it did not say %s: %v", want, said)
		}
	}
	happen("break")
	if m = c.expect(id, region.Broken); m.PowerState != "off" || m.OSystem != "" || len(m.IPAddresses) != 0 {
		t.Errorf("broken as %+v", m)
	}
	refuse("break")
	happen("heal")
	if m = c.expect(id, region.Deployed); m.OSystem != "" || m.InstallationSet != nil {
		t.Errorf("fixed as %+v", m)
	}
}

// Another account of the machine reaches the port, and does not know the password.
func TestAttackAnotherAccountUsesTheControlAPIOfTheLab(t *testing.T) {
	c := start(t, maas.Options{Fleet: gpus(1, "ready"), Control: "127.0.0.1:0"})
	u, err := url.Parse(c.region.ControlURL)
	if err != nil {
		t.Fatal(err)
	}
	for name, who := range map[string]*url.Userinfo{
		"nobody": nil, "a guess": url.UserPassword("control", "guess"), "no password": url.User("control"),
	} {
		u.User = who
		for _, path := range []string{"/machines/" + c.region.SystemIDs()[0] + "/break", "/clock/advance", "/faults"} {
			q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, u.String()+path, strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			p, err := http.DefaultClient.Do(q)
			if err != nil {
				t.Fatal(err)
			}
			p.Body.Close()
			if p.StatusCode != http.StatusUnauthorized {
				t.Errorf("%s: %s is answered with %d", name, path, p.StatusCode)
			}
		}
	}
}

func TestControlAPI(t *testing.T) {
	c := start(t, maas.Options{Fleet: gpus(1, "ready"), Control: "127.0.0.1:0"})
	id := c.region.SystemIDs()[0]
	say := func(method, path, body string, want int) string {
		t.Helper()
		q, err := http.NewRequestWithContext(t.Context(), method, c.region.ControlURL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		p, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Body.Close()
		b, err := io.ReadAll(p.Body)
		if err != nil || p.StatusCode != want {
			t.Fatalf("%s %s: %d %s %v", method, path, p.StatusCode, b, err)
		}
		return string(b)
	}
	say("POST", "/faults", `{"fault":"deploy_fails","machine":"gpu-*","count":1}`, 201)
	say("POST", "/faults", `{"fault":"nonsense"}`, 400)
	say("POST", "/faults", `{"fault":"deploy_fails","machin":"gpu-*"}`, 400)
	c.op(id, "deploy", nil)
	say("POST", "/clock/advance", `{"by":"1m"}`, 200)
	c.expect(id, region.FailedDeployment)
	var rules []fault.Rule
	if err := json.Unmarshal([]byte(say("GET", "/faults", "", 200)), &rules); err != nil || rules[0].Struck != 1 {
		t.Errorf("rules %+v %v", rules, err)
	}
	say("DELETE", "/faults/"+strconv.Itoa(rules[0].ID), "", 204)
	say("DELETE", "/faults/99", "", 404)
	say("POST", "/scenario", "happenings:\n  - {machine: gpu-00001, do: delete, after: 5m}\n", 201)
	say("POST", "/clock/advance", `{"by":"6m"}`, 200)
	if c.region.Count() != 0 {
		t.Error("the machine is still there")
	}
	say("POST", "/machines/nobody/delete", "", 400)
	say("POST", "/racks/dead", "", 204)
	if a := c.ok("GET", "/rackcontrollers/", nil); !strings.Contains(a.body, `"dead"`) {
		t.Error("the rack is well")
	}
	var status struct {
		Records uint64 `json:"machine_records"`
	}
	if err := json.Unmarshal([]byte(say("GET", "/status", "", 200)), &status); err != nil || status.Records == 0 {
		t.Errorf("%d machines were shown, %v", status.Records, err)
	}
	say("DELETE", "/faults", "", 204)
}

func TestScenarioFilesAreChecked(t *testing.T) {
	b, err := os.ReadFile("testdata/scenario.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s, err := fault.ReadScenario(b)
	if err != nil {
		t.Fatal(err)
	}
	if c := start(t, maas.Options{Fleet: gpus(16, "deployed"), Scenario: s}); len(c.region.Faults.Rules()) != 18 {
		t.Errorf("%d rules", len(c.region.Faults.Rules()))
	}
	for name, tt := range map[string]struct{ file, complaint string }{
		"good":          {"faults:\n  - {fault: slow, delay: 2s, operation: 'machines.*', probability: 0.5}\n", ""},
		"not YAML":      {"faults: {", "read scenario"},
		"unknown fault": {"faults: [{fault: explode}]", `rule 1: fault "explode" is not known`},
		"unknown phase": {"faults: [{fault: phase_fails, phase: lunch}]", `phase "lunch"`},
		"bad chance":    {"faults: [{fault: drop, probability: 2}]", "probability"},
		"bad pattern":   {"faults: [{fault: drop, machine: '['}]", "pattern"},
		"unknown field": {"faults: [{fault: drop, machin: gpu-1}]", "machin"},
		"bad delay":     {"faults: [{fault: slow, delay: soon}]", "duration"},
	} {
		_, err := fault.ReadScenario([]byte(tt.file))
		if tt.complaint == "" && err != nil || tt.complaint != "" &&
			(err == nil || !strings.Contains(err.Error(), tt.complaint)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
