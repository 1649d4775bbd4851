package site_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"testing"

	"gpuaas/controlplane/internal/engine/httpapi/httpapitest"
	"gpuaas/controlplane/internal/fleet/site"
	simulated "gpuaas/sim/maas"
	"gpuaas/sim/maas/fleet"
)

// The whole way of a new operator, against the simulator.
func TestANewSiteAgainstTheSimulator(t *testing.T) {
	w := newWorld(t)
	sim := simulated.StartTest(t, simulated.Options{Fleet: fleet.Options{Machines: 120, Stage: "deployed"}})
	body := w.body("dc1")
	body["api_base_url"], body["pxe_iface"], body["pxe_vlan_vid"] = sim.URL, "eno1", 0
	body["required_scripts"] = []string{"smartctl-validate", "maas-lshw@11"}
	var v site.View
	w.call(t, http.MethodPost, "", "", body).Decode(t, &v)
	path := "/" + v.SiteID.String()
	set := func(token string) httpapitest.Answer {
		return w.call(t, http.MethodPost, path+"/credentials", "", object{"api_token": token})
	}
	set("a:b:c").Wants(t, http.StatusUnprocessableEntity, "maas_token_invalid")
	set(sim.OperatorToken).Wants(t, http.StatusUnprocessableEntity, "maas_not_admin")
	if a := set(sim.Token); a.Status != http.StatusOK {
		t.Fatalf("answer is %d %s", a.Status, a.Body)
	}
	// A fresh MAAS forwards to no DNS server; everything else is well.
	for name, c := range w.probe(t, path) {
		if want := name != "dns_servers"; c.OK != want {
			t.Errorf("%s: %+v", name, c)
		}
	}
	names := []string{"of-no-machine"}
	for i := range 120 { // more than one request names
		names = append(names, fmt.Sprintf("gpu-%05d", i+1))
	}
	found, err := w.service.MachinesNamed(system(t), v.SiteID, names)
	if err != nil || len(found) != 120 || found[119] != (site.RegionMachine{
		SystemID: found[119].SystemID, Hostname: "gpu-00120", Status: "Deployed",
		Taken: true,
	}) {
		t.Errorf("of 121 names MAAS has %d machines: %v", len(found), err)
	}
	access, err := w.service.Access(system(t), v.SiteID)
	if err != nil {
		t.Fatal(err)
	}
	client, err := (&site.MAAS{Loopback: func(netip.AddrPort) bool { return true }}).Client(access)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.SetSetting(t.Context(), "upstream_dns", "8.8.8.8 1.1.1.1"); err != nil {
		t.Fatal(err)
	}
	for name, c := range w.probe(t, path) {
		if !c.OK {
			t.Errorf("%s: %+v", name, c)
		}
	}
}
