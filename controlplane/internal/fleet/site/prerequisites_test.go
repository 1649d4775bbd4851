package site_test

import (
	"net/http"
	"strings"
	"testing"
)

// Two sites of one MAAS that want another interval are told, both of them.
func TestAConflictOfIntervalsBetweenSitesOfOneRegionIsShown(t *testing.T) {
	w := newWorld(t)
	_, first := w.site(t, "dc1")
	w.credentials(t, first)
	_, second := w.site(t, "dc2")
	w.credentials(t, second)
	for _, path := range []string{first, second} {
		if c := w.probe(t, path)["hw_sync_interval"]; !c.OK {
			t.Errorf("sites that agree: %+v", c)
		}
	}
	if _, err := w.owner.Exec(t.Context(), `UPDATE maas_site_profiles p SET hardware_sync_interval = '30m'
		FROM maas_sites s WHERE s.id = p.site_id AND s.name = 'dc2'`); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{first, second} {
		c := w.probe(t, path)["hw_sync_interval"]
		if c.Code != "maas_hw_sync_interval_conflict" ||
			!strings.Contains(c.Detail, "profile default of site dc1 wants 15m and owns the setting") ||
			!strings.Contains(c.Detail, "profile default of site dc2 wants 30m") {
			t.Errorf("sites that do not: %+v", c)
		}
	}
}

// What a site requires of its MAAS is looked for, and no setting is taken and ignored.
func TestProbeLooksForWhatTheSiteRequires(t *testing.T) {
	scripts := `[{"name": "burn-in", "type_name": "Testing script", "history": [{"id": 7, "comment": "v1"}, {"id": 9, "comment": "v2"}]}]`
	for name, c := range map[string]struct {
		change      object
		racks       string
		check, code string
	}{
		"interface": {
			change: object{"pxe_iface": "ens7"},
			check:  "pxe_network",
			code:   "pxe_iface_missing",
		},
		"VLAN": {
			change: object{"pxe_vlan_vid": 47},
			check:  "pxe_network",
			code:   "pxe_vlan_differs",
		},
		"DHCP": {
			racks: `{"name": "ens19", "vlan": {"vid": 46, "dhcp_on": false}}`,
			check: "pxe_network",
			code:  "pxe_dhcp_off",
		},
		"tagged interface": {
			racks: `{"name": "ens19.46", "vlan": {"vid": 46, "dhcp_on": true}}`,
			check: "pxe_network",
		},
		"https": {
			change: object{"required_capabilities": []string{"https"}},
			check:  "capabilities",
			code:   "site_capability_lacking",
		},
		"one rack": {
			change: object{"required_capabilities": []string{"redundant_racks"}},
			check:  "capabilities",
			code:   "site_capability_lacking",
		},
		"redundant DHCP": {
			change: object{"required_capabilities": []string{"redundant_dhcp"}},
			racks:  `{"name": "ens19", "vlan": {"vid": 46, "dhcp_on": true, "secondary_rack": "def456"}}`,
			check:  "capabilities",
		},
		"script": {
			change: object{"required_scripts": []string{"burn-in"}},
			check:  "scripts",
		},
		"newest by comment": {
			change: object{"required_scripts": []string{"burn-in@v2"}},
			check:  "scripts",
		},
		"newest by number": {
			change: object{"required_scripts": []string{"burn-in@9"}},
			check:  "scripts",
		},
		"older version": {
			change: object{"required_scripts": []string{"burn-in@v1"}},
			check:  "scripts",
			code:   "site_script_missing",
		},
		"script that is gone": {
			change: object{"required_scripts": []string{"other"}},
			check:  "scripts",
			code:   "site_script_missing",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			_, path := w.site(t, "dc1")
			w.credentials(t, path)
			w.maas.say("scripts/", 200, scripts)
			if c.racks != "" {
				w.maas.say("rackcontrollers/", 200, `[{"hostname": "r1", "service_set": [{"name": "rackd", "status": "running"}], "interface_set": [`+c.racks+`]}]`)
			}
			if c.change != nil {
				a := w.call(t, http.MethodGet, path, "", nil)
				if a = w.call(t, http.MethodPatch, path, a.Header.Get("ETag"), c.change); a.Status != http.StatusOK {
					t.Fatalf("change answers %d %s", a.Status, a.Body)
				}
			}
			if got := w.probe(t, path)[c.check]; got.Code != c.code {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestWhatASiteRequiresMustBeKnown(t *testing.T) {
	w := newWorld(t)
	for field, value := range map[string]string{"required_capabilities": "magic", "required_scripts": "a b"} {
		body := w.body("dc1")
		body[field] = []string{value}
		w.call(t, http.MethodPost, "", "", body).Wants(t, http.StatusUnprocessableEntity, "validation_error")
	}
}
