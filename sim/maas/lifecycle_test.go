package maas_test

import (
	"context"
	"encoding/base64"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gpuaas/sim/maas"
	"gpuaas/sim/maas/fleet"
	"gpuaas/sim/maas/region"
)

func gpus(n int, stage string) fleet.Options { return fleet.Options{Machines: n, Stage: stage} }

func TestAMachineGoesThroughItsWholeLife(t *testing.T) {
	c := start(t, maas.Options{
		Seed: 7, Fleet: gpus(1, "new"), Images: []string{"custom/gpuaas-h200"},
		Timing: region.Timing{Pace: region.PaceTriangular},
	})
	id := c.region.SystemIDs()[0]
	go c.clockRuns(t)
	c.op(id, "commission", url.Values{"testing_scripts": {"none"}})
	c.clock.Advance(29 * time.Minute)
	m := c.expect(id, region.Ready)
	if m.Owner != nil || m.PowerState != "off" || m.CPUCount != 224 || len(m.Interfaces) != 10 || len(m.Physical) != 9 ||
		m.BootDisk == nil || *m.BootDisk.Model != "DELLBOSS VD" {
		t.Errorf("commissioned as %+v", m)
	}
	if m.Interfaces[0].Links[0].Mode != "auto" || m.Interfaces[2].Links[0].Mode != "link_up" {
		t.Errorf("links %+v %+v", m.Interfaces[0].Links, m.Interfaces[2].Links)
	}
	userData := base64.StdEncoding.EncodeToString([]byte("#cloud-config\n"))
	c.op(id, "deploy", url.Values{
		"distro_series": {"custom/gpuaas-h200"}, "user_data": {userData},
		"enable_hw_sync": {"true"},
	})
	c.clock.Advance(59 * time.Minute)
	m = c.expect(id, region.Deployed)
	if m.PowerState != "on" || m.Netboot || len(m.IPAddresses) != 1 || m.LastSync == nil ||
		m.OSystem+"/"+m.DistroSeries != "ubuntu/jammy" || *m.SyncInterval != 900 { // its syncs have renamed it
		t.Errorf("deployed as %+v", m)
	}
	order := []string{
		"Deploying", "Performing PXE boot", "Loading ephemeral", "Configuring storage", "Installing OS",
		"Configuring OS", "Rebooting", "Image Deployed: deployed custom/gpuaas-h200/amd64/generic", "Deployed",
	}
	if said := c.events(id); !slices.Equal(said[len(said)-len(order):], order) {
		t.Errorf("said %v", said)
	}
	before := *m.LastSync
	c.clock.Advance(time.Hour)
	if after := *c.machine(id).LastSync; after <= before {
		t.Errorf("last sync %s, before %s", after, before)
	}
	c.op(id, "release", url.Values{"erase": {"true"}})
	c.expect(id, region.DiskErasing)
	c.clock.Advance(2 * time.Hour)
	if m = c.expect(id, region.Ready); m.Owner != nil || m.OSystem != "" || m.PowerState != "off" ||
		len(m.IPAddresses) != 0 {
		t.Errorf("released as %+v", m)
	}
}

// clockRuns moves time while a request waits for the BMC.
func (c *client) clockRuns(t *testing.T) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-t.Context().Done():
			return
		case <-tick.C:
			c.clock.Advance(50 * time.Millisecond)
		}
	}
}

func TestMAASGivesUpOnSilentMachines(t *testing.T) {
	for name, tt := range map[string]struct {
		stage, rule, op string
		form            url.Values
		within          time.Duration
		want            region.Status
		reason          string
	}{
		"no PXE while commissioning": {
			"ready", "pxe", "commission", nil, 31 * time.Minute, region.FailedCommissioning,
			"Node operation 'Commissioning' timed out after 30 minutes.",
		},
		"no datasource": {
			"ready", "datasource", "deploy", nil, 61 * time.Minute, region.FailedDeployment,
			"time-out during deployment",
		},
		"no PXE while deploying": {
			"ready", "pxe", "deploy", nil, 61 * time.Minute, region.FailedDeployment,
			"time-out during deployment",
		},
		"power stays on": {
			"deployed", "power_off", "release", nil, 6 * time.Minute, region.FailedReleasing,
			"Node operation 'Releasing' timed out after 5 minutes.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := start(t, maas.Options{Fleet: gpus(1, tt.stage)})
			id := c.region.SystemIDs()[0]
			c.fault("phase_hangs", tt.rule)
			c.op(id, tt.op, tt.form)
			c.clock.Advance(tt.within)
			if m := c.expect(id, tt.want); m.ErrorDescription != tt.reason {
				t.Errorf("reason %q", m.ErrorDescription)
			}
		})
	}
}

func TestCommissioningRunsTests(t *testing.T) {
	c := start(t, maas.Options{Fleet: gpus(1, "new")})
	id := c.region.SystemIDs()[0]
	c.op(id, "commission", nil)
	c.clock.Advance(time.Second)
	if m := c.expect(id, region.Ready); m.TestingName != "Passed" || m.TestingSet == nil {
		t.Errorf("tests %s", m.TestingName)
	}
	c.fault("testing_fails", "")
	c.op(id, "commission", nil)
	c.clock.Advance(time.Second)
	if m := c.expect(id, region.FailedTesting); m.Owner == nil || m.TestingName != "Failed" {
		t.Errorf("owner %v, tests %s", m.Owner, m.TestingName)
	}
	if a := c.call("POST", "/machines/"+id+"/?op=commission", url.Values{}); a.status != 400 {
		t.Errorf("commissioning after failed tests: %d", a.status)
	}
	c.op(id, "override_failed_testing", nil)
	c.expect(id, region.Ready)
}

func TestCommissioningTakesTheBMCUnlessToldNotTo(t *testing.T) {
	c := start(t, maas.Options{Fleet: gpus(2, "ready")})
	for n, tt := range []struct {
		form url.Values
		own  bool
	}{{url.Values{"skip_bmc_config": {"true"}}, false}, {nil, true}} {
		id := c.region.SystemIDs()[n]
		c.op(id, "commission", tt.form)
		c.clock.Advance(time.Second)
		c.expect(id, region.Ready)
		if a := c.ok("GET", "/machines/"+id+"/?op=power_parameters", nil); strings.Contains(a.body, "calvin") == tt.own {
			t.Errorf("power parameters %s", a.body)
		}
	}
}

func TestReleaseEndsInNewWhenCommissioningDidNotPass(t *testing.T) {
	c := start(t, maas.Options{Fleet: gpus(1, "ready")})
	id := c.region.SystemIDs()[0]
	c.fault("bmc_failure", "")
	if a := c.call("POST", "/machines/"+id+"/?op=commission",
		url.Values{"skip_storage": {"true"}, "skip_networking": {"true"}}); a.status != 500 {
		t.Fatalf("answered %d", a.status)
	}
	c.region.Faults.Clear()
	c.op(id, "deploy", nil)
	c.clock.Advance(time.Minute)
	c.expect(id, region.Deployed)
	c.op(id, "release", nil)
	c.clock.Advance(time.Minute)
	c.expect(id, region.New)
}

func TestAServerNobodyAnnouncedEnlists(t *testing.T) {
	c := start(t, maas.Options{Fleet: fleet.Options{Machines: 1, Unknown: 2}})
	if err := c.region.Happen(fleet.BMCAddress(2), "enlist"); err != nil {
		t.Fatal(err)
	}
	ids := c.region.SystemIDs()
	if len(ids) != 2 {
		t.Fatalf("machines %v", ids)
	}
	m := c.expect(ids[1], region.New)
	if m.Interfaces[0].MAC != "b8:3f:00:00:02:00" || m.PowerType != "ipmi" {
		t.Errorf("enlisted as %+v", m)
	}
	if a := c.ok("GET", "/machines/"+ids[1]+"/?op=power_parameters", nil); !strings.Contains(a.body, fleet.BMCAddress(2)) {
		t.Errorf("power parameters %s", a.body)
	}
	// A record made for the third server by its BMC address finds that server.
	a := c.ok("POST", "/machines/", url.Values{
		"power_type":                     {"ipmi"},
		"power_parameters_power_address": {fleet.BMCAddress(3)}, "hostname": {"third"},
	})
	c.clock.Advance(time.Second)
	id, _ := c.region.Find("third")
	if m = c.expect(id, region.Ready); m.Interfaces[0].MAC != "b8:3f:00:00:03:00" ||
		!strings.Contains(a.body, "Commissioning") {
		t.Errorf("commissioned as %+v", m)
	}
}

// rig is a metal backend that remembers its orders.
type rig struct {
	mu     sync.Mutex
	booted []region.Installed
	off    chan string
}

func (r *rig) Boot(_ context.Context, i region.Installed) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.booted = append(r.booted, i)
	r.off <- "booted " + i.SystemID
	return nil
}

func (r *rig) PowerOff(_ context.Context, id string) error {
	r.off <- "off " + id
	return nil
}

func (*rig) Fetches() bool { return true }

func TestMetalBootsTheInstalledSystem(t *testing.T) {
	metal := &rig{off: make(chan string, 8)}
	c := start(t, maas.Options{Fleet: gpus(1, "ready"), Metal: metal})
	id := c.region.SystemIDs()[0]
	c.op(id, "deploy", url.Values{"user_data": {base64.StdEncoding.EncodeToString([]byte("#!/bin/sh\n"))}})
	c.clock.Advance(time.Second)
	if got := <-metal.off; got != "booted "+id {
		t.Fatalf("metal was told %q", got)
	}
	c.expect(id, region.Deploying) // what was booted has not asked for its user data yet
	i := metal.booted[0]
	if string(i.UserData) != "#!/bin/sh\n" || len(i.Addresses) != 1 || i.Series != "noble" {
		t.Errorf("booted %+v", i)
	}
	a := send(t, "GET", c.region.URL+"/metadata/2012-03-01/user-data", nil, signature(i.Token, c.clock.Now(), ""))
	if a.body != "#!/bin/sh\n" {
		t.Errorf("user data %d %q", a.status, a.body)
	}
	c.expect(id, region.Deployed)
	c.op(id, "power_off", nil)
	if got := <-metal.off; got != "off "+id {
		t.Errorf("metal was told %q", got)
	}
}
