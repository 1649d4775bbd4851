package site_test

import (
	"maps"
	"net/http"
	"testing"

	"gpuaas/controlplane/internal/fleet/site"
)

// How MAAS speaks to BMCs is kept with what it logs on with, of a site and of a
// machine; what was written without it goes on, with the same fingerprint.
func TestPowerParametersAreKeptWithTheCredentials(t *testing.T) {
	w := newWorld(t)
	s, path := w.site(t, "dc1")
	w.credentials(t, path)
	m := site.Machine{Hostname: "c07u31", IPMIIP: "10.1.0.1"}
	of := func() (site.PowerCredentials, site.Choice) {
		t.Helper()
		found, choice, err := w.service.PowerFor(system(t), s.SiteID, m)
		if err != nil {
			t.Fatal(err)
		}
		return found, choice
	}
	plain, before := of()
	if plain.Type() != "ipmi" || len(plain.Extra()) != 0 {
		t.Errorf("credentials without parameters: %s %v", plain.Type(), plain.Extra())
	}
	write := func(power object, status int) {
		t.Helper()
		power["user"], power["pass"] = plain.User, plain.Pass.Reveal()
		if a := w.call(t, http.MethodPost, path+"/credentials", "", object{"power": power}); a.Status != status {
			t.Errorf("%v: %d %s", power, a.Status, a.Body)
		}
	}
	write(object{}, http.StatusOK)
	if _, again := of(); again.Fingerprint != before.Fingerprint {
		t.Error("the same credentials have another fingerprint")
	}
	write(object{"cipher_suite_id": "17", "power_driver": "LAN_2_0"}, http.StatusOK)
	found, choice := of()
	if want := map[string]string{"cipher_suite_id": "17", "power_driver": "LAN_2_0"}; !maps.Equal(found.Extra(), want) ||
		choice.Fingerprint == before.Fingerprint {
		t.Errorf("parameters are %v, fingerprint %s", found.Extra(), choice.Fingerprint)
	}
	for _, wrong := range []object{
		{"cipher_suite_id": "0"},
		{"power_driver": "lanplus"},
		{"power_type": "manual"},
		{"power_type": "redfish", "cipher_suite_id": "17"},
		{"node_id": "1"},
		{"power_type": "redfish", "node_id": "../x"},
	} {
		write(wrong, http.StatusUnprocessableEntity)
	}
	if a := w.call(t, http.MethodPost, path+"/power-overrides", "", object{
		"selector_type": "hostname", "selector_value": "c07u31", "user": "root", "pass": overridePass,
		"power_type": "redfish", "node_id": "1",
	}); a.Status != http.StatusCreated {
		t.Fatalf("override answers %d %s", a.Status, a.Body)
	}
	if found, _ := of(); found.Type() != "redfish" || !maps.Equal(found.Extra(), map[string]string{"node_id": "1"}) {
		t.Errorf("the override has %s %v", found.Type(), found.Extra())
	}
}
