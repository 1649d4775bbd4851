package maas_test

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
	"time"

	gomaas "github.com/canonical/gomaasclient/client"
	"github.com/canonical/gomaasclient/entity"
	"github.com/juju/gomaasapi/v2"

	"gpuaas/sim/maas"
	"gpuaas/sim/maas/fleet"
	"gpuaas/sim/maas/simclock"
)

// Canonical's own client decodes the simulator's answers and takes a machine
// through its life.
func TestAnIndependentClientDrivesAMachine(t *testing.T) {
	clock := simclock.NewManual(time.Now())
	r := maas.StartTest(t, maas.Options{
		Clock: clock, Fleet: fleet.Options{Machines: 2, Unknown: 1},
		Images: []string{"custom/gpuaas-h200"},
	})
	c, err := gomaas.GetClient(r.URL, r.Token, "2.0")
	if err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	no := false
	made, err := c.Machines.Create(&entity.MachineCreateParams{Hostname: "made", PowerType: "ipmi", Commission: &no},
		map[string]any{
			"power_parameters_power_address": fleet.BMCAddress(3), "power_parameters_power_user": "root",
			"power_parameters_power_pass": "calvin",
		})
	must(err)
	_, err = c.Machine.Commission(made.SystemID, &entity.MachineCommissionParams{TestingScripts: "none"})
	must(err)
	clock.Advance(time.Second)
	m, err := c.Machine.Get(made.SystemID)
	must(err)
	if m.StatusName != "Ready" || len(m.InterfaceSet) != 10 || len(m.BlockDeviceSet) != 9 ||
		m.BootDisk.Model != "DELLBOSS VD" {
		t.Fatalf("commissioned as %s with %d interfaces and %d disks", m.StatusName, len(m.InterfaceSet),
			len(m.BlockDeviceSet))
	}
	must(c.BlockDevice.SetBootDisk(m.SystemID, m.BlockDeviceSet[1].ID))
	subnets, err := c.Subnets.Get()
	must(err)
	i, err := c.NetworkInterface.LinkSubnet(m.SystemID, m.InterfaceSet[1].ID,
		&entity.NetworkInterfaceLinkParams{Mode: "STATIC", Subnet: subnets[0].ID, IPAddress: "10.20.9.9", Force: true})
	must(err)
	if len(i.Links) != 1 || i.Links[0].IPAddress != "10.20.9.9" {
		t.Errorf("links %+v", i.Links)
	}
	m, err = c.Machines.Allocate(&entity.MachineAllocateParams{SystemID: made.SystemID})
	must(err)
	_, err = c.Machine.SetWorkloadAnnotations(m.SystemID, map[string]string{"owner": "gpuaas"})
	must(err)
	_, err = c.Machine.Deploy(m.SystemID, &entity.MachineDeployParams{
		DistroSeries: "custom/gpuaas-h200",
		EnableHwSync: true, UserData: base64.StdEncoding.EncodeToString([]byte("#cloud-config\n")),
	})
	must(err)
	clock.Advance(time.Minute)
	m, err = c.Machine.Get(made.SystemID)
	must(err)
	if m.StatusName != "Deployed" || m.OSystem != "custom" || m.DistroSeries != "gpuaas-h200" || len(m.IPAddresses) != 2 ||
		m.WorkloadAnnotations["owner"] != "gpuaas" {
		t.Errorf("deployed as %+v", m)
	}
	token, err := c.Machine.GetToken(m.SystemID)
	must(err)
	if token.TokenKey == "" {
		t.Error("no token")
	}
	state, err := c.Machine.GetPowerState(m.SystemID)
	must(err)
	if state.State != "on" {
		t.Errorf("power %s", state.State)
	}
	_, err = c.Machine.Details(m.SystemID)
	must(err)
	_, err = c.Machine.Release(m.SystemID, &entity.MachineReleaseParams{Erase: true, Comment: "done"})
	must(err)
	clock.Advance(time.Minute)
	if m, err = c.Machine.Get(made.SystemID); err != nil || m.StatusName != "Ready" {
		t.Errorf("released as %v %v", m, err)
	}
	readEverything(t, c, must)
	must(c.Machine.Delete(made.SystemID))
	_, err = c.Machine.Get(made.SystemID)
	if s, ok := gomaasapi.GetServerError(err); !ok || s.StatusCode != http.StatusNotFound ||
		!strings.Contains(s.BodyMessage, "No Machine matches") {
		t.Errorf("deleted machine: %v", err)
	}
}

// readEverything decodes the small objects.
func readEverything(t *testing.T, c *gomaas.Client, must func(error)) {
	t.Helper()
	racks, err := c.RackControllers.Get(&entity.RackControllersGetParams{})
	must(err)
	fabrics, err := c.Fabrics.Get()
	must(err)
	vlans, err := c.VLANs.Get(fabrics[0].ID)
	must(err)
	images, err := c.BootResources.Get(&entity.BootResourcesReadParams{})
	must(err)
	list, err := c.Machines.Get(&entity.MachinesParams{})
	must(err)
	events, err := c.Events.Get(&entity.EventParams{ID: list[0].SystemID})
	must(err)
	interval, err := c.MAASServer.Get("hardware_sync_interval")
	must(err)
	must(c.MAASServer.Post("upstream_dns", "1.1.1.1"))
	zones, err := c.Zones.Get()
	must(err)
	pools, err := c.ResourcePools.Get()
	must(err)
	if len(racks) != 1 || len(vlans) != 1 || len(images) != 3 || len(list) != 3 || events.Count == 0 ||
		string(interval) != `"15m"` || len(zones) != 1 || len(pools) != 1 {
		t.Errorf("read %d racks, %d VLANs, %d images, %d machines, %d events, interval %s, %d zones, %d pools", len(racks),
			len(vlans), len(images), len(list), events.Count, interval, len(zones), len(pools))
	}
}
