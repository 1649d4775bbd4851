package site_test

import (
	"testing"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/fleet/site"
)

func TestRequireBMC(t *testing.T) {
	listed := site.Site{Name: "dc1", Settings: site.Settings{BMCNetworks: []string{"10.176.0.0/16", "2001:db8::/64"}}}
	for address, ok := range map[string][2]bool{ // without a list, with one
		"10.176.16.1":     {true, true},
		"2001:db8::7":     {true, true},
		"10.177.0.1":      {true, false},
		"203.0.113.9":     {true, false},
		"127.0.0.1":       {false, false},
		"::1":             {false, false},
		"169.254.169.254": {false, false},
		"fe80::1":         {false, false},
		"0.0.0.0":         {false, false},
		"224.0.0.1":       {false, false},
		"bmc.example":     {false, false},
	} {
		for i, s := range []site.Site{{Name: "dc1"}, listed} {
			if err := site.RequireBMC(s, address); (err == nil) != ok[i] {
				t.Errorf("%s with %v: %v", address, s.Settings.BMCNetworks, err)
			}
		}
	}
}

// The networks are asked when the credentials are used, too: a job may have begun
// before an administrator listed them.
func TestCredentialsAreNotGivenForABMCElsewhere(t *testing.T) {
	w := newWorld(t)
	s, path := w.site(t, "dc1")
	w.credentials(t, path)
	m := site.Machine{Hostname: "c07u31", IPMIIP: "10.177.0.1"}
	if _, _, err := w.service.PowerFor(system(t), s.SiteID, m); err != nil {
		t.Fatal(err)
	}
	before, err := w.service.Site(system(t), s.SiteID)
	if err != nil {
		t.Fatal(err)
	}
	now, err := w.service.UpdateSite(system(t), s.SiteID, before.Version, site.Change{
		Settings: site.SettingsChange{BMCNetworks: &[]string{" 10.176.1.0/16 "}},
	})
	if err != nil || len(now.Settings.BMCNetworks) != 1 || now.Settings.BMCNetworks[0] != "10.176.0.0/16" {
		t.Fatal(now.Settings.BMCNetworks, err)
	}
	if _, _, err := w.service.PowerFor(system(t), s.SiteID, m); fault.CodeOf(err) != "bmc_outside_networks" {
		t.Error(err)
	}
}
