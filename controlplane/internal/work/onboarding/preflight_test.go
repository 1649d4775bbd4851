package onboarding_test

import (
	"net/http"
	"strings"
	"testing"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/telemetry"
	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/work/onboarding"
)

var allChecks = []string{
	"site_active", "profile", "reachable", "version", "token_valid", "token_admin", "rack_controllers", "pxe_network",
	"capabilities", "images", "scripts", "bundle", "hw_sync_interval", "dns_servers",
	"clock_skew", "hw_sync_source", "deploy_password", "sku", "machines", "power_credentials", "roce_rows", "not_in_use",
	"machines_in_maas", "capacity",
}

// preflight looks, and says which checks are not well.
func (d *desk) preflight(tb testing.TB, body object) (found map[string]onboarding.Check, bad string) {
	tb.Helper()
	a := d.call(tb, http.MethodPost, "onboardings/preflight", body)
	var v onboarding.PreflightView
	a.Decode(tb, &v)
	if a.Status != http.StatusOK {
		tb.Fatalf("preflight answers %d %s", a.Status, a.Body)
	}
	if strings.Contains(string(a.Body), "canary") {
		tb.Errorf("a secret is in %s", a.Body)
	}
	var names, ill []string
	found = map[string]onboarding.Check{}
	for _, c := range v.Checks {
		names = append(names, c.Name)
		found[c.Name] = c
		if !c.OK {
			ill = append(ill, c.Name)
		}
		if c.Detail == "" || c.OK != (c.Code == "") || c.OK != (c.Remedy == "") {
			tb.Errorf("check %+v", c)
		}
	}
	if strings.Join(names, " ") != strings.Join(allChecks, " ") {
		tb.Errorf("checks are %v", names)
	}
	if v.OK != (len(ill) == 0) {
		tb.Errorf("ok is %v with %v", v.OK, ill)
	}
	return found, strings.Join(ill, " ")
}

func TestPreflightChangesNothing(t *testing.T) {
	d := newDesk(t)
	rows := func() int {
		return d.count(t, `SELECT (SELECT count(*) FROM node_onboardings) + (SELECT count(*) FROM outbox_events) + (SELECT count(*) FROM audit_logs)`)
	}
	before := rows()
	found, bad := d.preflight(t, d.one(nil))
	if bad != "" {
		t.Errorf("not well: %s: %+v", bad, found)
	}
	if !strings.Contains(found["capacity"].Detail, "0 of 20 places") ||
		!strings.Contains(found["roce_rows"].Detail, "none for c07u43") {
		t.Errorf("found %+v", found)
	}
	if after := rows(); after != before {
		t.Errorf("%d rows were written", after-before)
	}
}

func TestPreflightFindsWhatIsInTheWay(t *testing.T) {
	two := []object{{"hostname": "c07u43", "ipmi_ip": "10.176.16.128"}, {"hostname": "c07u44", "ipmi_ip": "10.176.16.129"}}
	for name, c := range map[string]struct {
		arrange func(*testing.T, *desk)
		body    object
		bad     string
		check   string
		says    string
	}{
		"disabled site": {
			arrange: set(`UPDATE maas_sites SET status = 'disabled'`), bad: "site_active",
			check: "site_active", says: "dc1 is disabled",
		},
		"disabled profile": {
			arrange: set(`UPDATE maas_site_profiles SET status = 'disabled'`), bad: "profile",
			check: "profile", says: "disabled",
		},
		"MAAS is away": {
			arrange: func(_ *testing.T, d *desk) {
				d.region.away = fault.New(fault.Unavailable, "maas_unreachable", "MAAS does not answer").WithRemedy("start it")
			},
			bad:   "reachable version token_valid token_admin rack_controllers pxe_network capabilities images scripts hw_sync_interval dns_servers clock_skew machines_in_maas",
			check: "reachable", says: "does not answer",
		},
		"not an administrator": {arrange: func(_ *testing.T, d *desk) {
			d.region.admin = false
		}, bad: "token_admin", check: "token_admin", says: "admin"},
		"image missing": {
			arrange: func(_ *testing.T, d *desk) {
				d.region.lacking = []site.Image{{Name: "ubuntu/noble", Architecture: "amd64/generic"}}
			},
			bad: "images", check: "images", says: "ubuntu/noble",
		},
		"no DHCP": {arrange: func(_ *testing.T, d *desk) {
			d.region.dhcpOff = true
		}, bad: "pxe_network", check: "pxe_network", says: "no DHCP on VLAN 46"},
		"DHCP let pass": {arrange: func(t *testing.T, d *desk) {
			d.region.dhcpOff = true
			d.set(t, `UPDATE maas_site_profiles SET strict_pxe_preflight = false`)
		}, check: "pxe_network", says: "WARNING"},
		"other interface": {
			arrange: set(`UPDATE maas_site_profiles SET pxe_iface = 'ens7'`), bad: "pxe_network",
			check: "pxe_network", says: "no rack controller has the interface ens7",
		},
		"capability": {
			arrange: set(`UPDATE maas_sites SET required_capabilities = '{redundant_racks}'`),
			bad:     "capabilities", check: "capabilities", says: "redundant_racks",
		},
		"script": {
			arrange: set(`UPDATE maas_sites SET required_scripts = '{smartctl-validate@v2,burn-in}'`),
			bad:     "scripts", check: "scripts", says: "burn-in is missing",
		},
		"script version": {
			arrange: set(`UPDATE maas_sites SET required_scripts = '{smartctl-validate@v1}'`), bad: "scripts",
			check: "scripts", says: "of version 7, v2, not v1",
		},
		"unknown SKU":  {body: object{"sku_id": "none"}, bad: "sku", check: "sku", says: "no such SKU"},
		"disabled SKU": {arrange: set(`UPDATE skus SET status = 'disabled'`), bad: "sku", check: "sku", says: "disabled"},
		"lost secrets": {arrange: func(_ *testing.T, d *desk) {
			d.vault.lose()
		}, bad: "token_valid token_admin rack_controllers pxe_network capabilities images scripts hw_sync_interval dns_servers power_credentials machines_in_maas", check: "power_credentials", says: "c07u43"},
		"no BMC login": {
			arrange: set(`UPDATE maas_sites SET power_fingerprint = '', power_rotated_at = NULL`),
			bad:     "power_credentials", check: "power_credentials", says: "no default BMC credentials",
		},
		"malformed": {
			body: object{
				"nodes": []object{{"hostname": "a b", "ipmi_ip": "127.0.0.1"}}, "hostname": nil,
				"ipmi_ip": nil,
			}, bad: "machines power_credentials roce_rows not_in_use machines_in_maas", check: "machines",
			says: "a b hostname",
		},
		"in flight": {arrange: func(t *testing.T, d *desk) {
			d.requested(t, "c07u43", "10.0.0.1")
		}, bad: "not_in_use", check: "not_in_use", says: "c07u43 is being onboarded"},
		"twice": {
			body: object{"nodes": []object{two[0], two[0]}, "hostname": nil, "ipmi_ip": nil}, bad: "not_in_use",
			check: "not_in_use", says: "more than once",
		},
		"two are well": {
			body: object{"nodes": two, "hostname": nil, "ipmi_ip": nil}, check: "power_credentials",
			says: "all 2",
		},
		"new to MAAS":   {check: "machines_in_maas", says: "0 of 1; NEW to it, and added when the work begins: c07u43"},
		"known to MAAS": {arrange: has("Ready", false), check: "machines_in_maas", says: "all 1"},
		"taken in MAAS": {
			arrange: has("Deployed", true), bad: "machines_in_maas", check: "machines_in_maas",
			says: "c07u43 is Deployed",
		},
		"no place free": {
			arrange: full, check: "capacity",
			says: "1 of 1 places of the site are in use: 0 would begin at once, 1 would wait",
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			if c.arrange != nil {
				c.arrange(t, d)
			}
			body := d.one(c.body)
			for k, v := range body {
				if v == nil {
					delete(body, k)
				}
			}
			found, bad := d.preflight(t, body)
			if bad != c.bad {
				t.Errorf("not well are %q, want %q: %+v", bad, c.bad, found)
			}
			if !strings.Contains(found[c.check].Detail, c.says) {
				t.Errorf("%s says %+v, want %q", c.check, found[c.check], c.says)
			}
		})
	}
}

func has(status string, taken bool) func(*testing.T, *desk) {
	return func(_ *testing.T, d *desk) {
		d.region.has = []site.RegionMachine{{Hostname: "c07u43", Status: status, Taken: taken}}
	}
}

func set(statement string) func(*testing.T, *desk) {
	return func(t *testing.T, d *desk) {
		t.Helper()
		d.set(t, statement)
	}
}

func full(t *testing.T, d *desk) {
	t.Helper()
	d.set(t, `UPDATE maas_sites SET max_parallel = 1`)
	d.requested(t, "other", "10.0.0.1")
}

func TestPreflightGoesByOverridesAndRoCERows(t *testing.T) {
	d := newDesk(t)
	ctx := auth.With(telemetry.WithCorrelation(t.Context(), "test"), auth.System("test"))
	if _, err := d.sites.CreatePowerOverride(ctx, d.site, site.NewPowerOverride{
		Selector:    site.Selector{Type: site.ByHostname, Value: "c07u43"},
		Credentials: site.PowerCredentials{User: "x", Pass: redact.New(bmcPass)},
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := d.sites.UpsertAssignments(ctx, d.site,
		[]site.AssignmentRow{{Hostname: "c07u43", Interface: "enp1", IPv4CIDR: "172.30.9.61/31"}}); err != nil {
		t.Fatal(err)
	}
	found, bad := d.preflight(t, d.one(nil))
	if bad != "" || !strings.Contains(found["power_credentials"].Detail, "1 of them by an override") ||
		!strings.Contains(found["roce_rows"].Detail, "well-formed, for all 1") {
		t.Errorf("found %+v", found)
	}
	if _, err := d.sites.UpsertAssignments(ctx, d.site,
		[]site.AssignmentRow{{Hostname: "c07u43", Interface: "enp2", IPv4CIDR: "172.30.9.60/31"}}); err != nil {
		t.Fatal(err)
	}
	if found, bad := d.preflight(t, d.one(nil)); bad != "roce_rows" ||
		!strings.Contains(found["roce_rows"].Detail, "enp2: 172.30.9.60/31 is on the link of enp1") {
		t.Errorf("not well: %s: %+v", bad, found["roce_rows"])
	}
}
