package maas_test

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"gpuaas/sim/maas"
	"gpuaas/sim/maas/fault"
	"gpuaas/sim/maas/region"
)

// What follows was found on a real region beside the recorded exchanges.

func TestFiltersOfRackControllers(t *testing.T) {
	c := start(t, maas.Options{})
	for query, want := range map[string]int{
		"": 1, "?hostname=rack1": 1, "?hostname=rack2": 0, "?id=nobody": 0, "?zone=default&arch=amd64/generic": 1,
		"?status=ready": 0,
	} {
		var list []region.RackDoc
		if err := json.Unmarshal([]byte(c.ok("GET", "/rackcontrollers/"+query, nil).body), &list); err != nil {
			t.Fatal(err)
		}
		if len(list) != want {
			t.Errorf("%q lists %d racks, want %d", query, len(list), want)
		}
	}
	if a := c.call("GET", "/rackcontrollers/?colour=red", nil); a.status != http.StatusBadRequest ||
		!strings.Contains(a.body, "No such constraint.") {
		t.Errorf("an unknown filter: %d %s", a.status, a.body)
	}
}

func TestFirmwareOfADiskIsNullAndNotMissing(t *testing.T) {
	c := start(t, maas.Options{})
	id := c.region.AddMachine(&region.Hardware{
		PXEMAC: "52:54:00:00:00:01", Disks: []region.Disk{{Name: "sda", Size: 1 << 30, BlockSize: 512}},
	}, region.Stage{Hostname: "plain", Status: region.Ready})
	if a := c.ok("GET", "/machines/"+id+"/", nil); strings.Count(a.body, `"firmware_version": null`) < 2 {
		t.Errorf("no firmware_version: %s", a.body)
	}
}

func TestTestsSurviveACommissioningWithoutTests(t *testing.T) {
	c := start(t, maas.Options{Fleet: gpus(1, "new")})
	id := c.region.SystemIDs()[0]
	commission := func(pairs ...string) region.MachineDoc {
		c.op(id, "commission", form(pairs...))
		c.clock.Advance(time.Hour)
		return c.expect(id, region.Ready)
	}
	tested := commission().TestingSet
	if again := commission("testing_scripts", "none").TestingSet; tested == nil || again == nil || *again != *tested {
		t.Errorf("current tests were %v and are %v", tested, again)
	}
}

func TestTheTestingSignalSaysNothing(t *testing.T) {
	c := start(t, maas.Options{Fleet: gpus(1, "new"), Passive: true})
	id := c.region.SystemIDs()[0]
	c.op(id, "commission", nil)
	if err := c.region.Signal(id, "TESTING"); err != nil {
		t.Fatal(err)
	}
	if m := c.expect(id, region.Testing); m.StatusMessage == nil || *m.StatusMessage != "Commissioning" {
		t.Errorf("status message %v", m.StatusMessage)
	}
}

func TestCommissioningStatusAfterAFailedSignal(t *testing.T) {
	c := start(t, maas.Options{Fleet: gpus(1, "new"), Passive: true})
	id := c.region.SystemIDs()[0]
	c.op(id, "commission", nil)
	if err := c.region.Signal(id, "FAILED"); err != nil { // of a node that reported no script
		t.Fatal(err)
	}
	if m := c.expect(id, region.FailedCommissioning); m.Commissioning != -1 || m.Testing != -1 {
		t.Errorf("commissioning %d, tests %d of scripts that were aborted", m.Commissioning, m.Testing)
	}
	c = start(t, maas.Options{Fleet: gpus(1, "new")})
	id = c.region.SystemIDs()[0]
	if _, err := c.region.Faults.Add(fault.Rule{Fault: fault.FailCommissioning}); err != nil {
		t.Fatal(err)
	}
	c.op(id, "commission", nil)
	c.clock.Advance(time.Hour)
	if m := c.expect(id, region.FailedCommissioning); m.CommissioningName != "Failed" {
		t.Errorf("commissioning is %s after a script that failed", m.CommissioningName)
	}
}

func TestDefaultGatewayOfALinkedSubnet(t *testing.T) {
	c := start(t, maas.Options{Fleet: gpus(1, "ready")})
	id := c.region.SystemIDs()[0]
	m := c.machine(id)
	if g := m.Gateways["ipv4"]; g.IP == nil || *g.IP != "10.20.0.1" || g.Link != nil {
		t.Errorf("gateway %+v", g)
	}
	nic := "/nodes/" + id + "/interfaces/" + strconv.Itoa(m.Interfaces[0].ID) + "/"
	c.ok("POST", nic+"?op=set_default_gateway", form())
	if g := c.machine(id).Gateways["ipv4"]; g.Link == nil || *g.Link != m.Interfaces[0].Links[0].ID {
		t.Errorf("chosen gateway %+v", g)
	}
}
