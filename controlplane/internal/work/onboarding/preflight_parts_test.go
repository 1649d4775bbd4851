package onboarding_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/work/onboarding"
)

func many(n int) []object {
	out := make([]object, n)
	for i := range out {
		out[i] = object{"hostname": fmt.Sprintf("d%04d", i), "ipmi_ip": fmt.Sprintf("10.176.%d.%d", 17+i/200, i%200+1)}
	}
	return out
}

// parts asks for the whole preflight of a batch, part by part.
func (d *desk) parts(tb testing.TB, nodes []object) []onboarding.PreflightView {
	tb.Helper()
	body := d.selectors(object{"nodes": nodes})
	var out []onboarding.PreflightView
	for {
		a := d.call(tb, http.MethodPost, "onboardings/preflight", body)
		var v onboarding.PreflightView
		if a.Decode(tb, &v); a.Status != http.StatusOK {
			tb.Fatalf("preflight answers %d %s", a.Status, a.Body)
		}
		if out = append(out, v); v.NextMachine == nil {
			return out
		}
		if *v.NextMachine != v.LookedAt || v.OK {
			tb.Fatalf("part %d: next is %d after %d, ok %v", len(out), *v.NextMachine, v.LookedAt, v.OK)
		}
		body["from_machine"] = *v.NextMachine
	}
}

func TestPreflightLooksAtEveryMachineOfABatchInParts(t *testing.T) {
	d := newDesk(t)
	for i := range 250 {
		d.region.has = append(d.region.has, site.RegionMachine{
			SystemID: strconv.Itoa(i), Hostname: fmt.Sprintf("d%04d", i), Status: "Ready",
		})
	}
	found := d.parts(t, many(250))
	if len(found) != 3 || found[2].LookedAt != 250 || found[2].Machines != 250 || !found[2].OK {
		t.Fatalf("%d parts, the last %+v", len(found), found[len(found)-1])
	}
	for i, text := range []string{
		"machines 1 to 100 of 250: MAAS has all 100",
		"machines 101 to 200 of 250: MAAS has all 100", "machines 201 to 250 of 250: MAAS has all 50",
	} {
		if !strings.Contains(checkOf(t, found[i], "machines_in_maas").Detail, text) {
			t.Errorf("part %d: %+v", i, found[i].Checks)
		}
	}
	if d.region.most > 100 {
		t.Errorf("MAAS was asked about %d machines at once", d.region.most)
	}
	d.region.has[249].Taken, d.region.has[249].Status = true, "Deployed" // beyond the first hundred
	found = d.parts(t, many(250))
	if last := checkOf(t, found[2], "machines_in_maas"); last.OK || !strings.Contains(last.Detail, "d0249 is Deployed") ||
		found[2].OK {
		t.Errorf("the last part says %+v", last)
	}
}

func checkOf(tb testing.TB, v onboarding.PreflightView, name string) onboarding.Check {
	tb.Helper()
	for _, c := range v.Checks {
		if c.Name == name {
			return c
		}
	}
	tb.Fatalf("no check %s in %+v", name, v.Checks)
	return onboarding.Check{}
}

// The machine of a node is known by its name or, where MAAS calls it otherwise, by
// its id in MAAS.
func TestPreflightNeverAdvisesToReleaseTheMachineOfANode(t *testing.T) {
	d := newDesk(t)
	node := id.New[id.Node]()
	d.set(t, `INSERT INTO nodes (id, status, hostname, host, sku_id, gpus_total, region_code, onboarding_mode)
		VALUES ($1, 'active', 'c07u43', '10.0.0.9', $2, 8, 'eu-1', 'maas')`, node, deskSKU)
	d.set(t, `INSERT INTO node_maas_state (node_id, site_id, profile_id, maas_system_id) VALUES ($1, $2, $3, 'abc123')`,
		node, d.site, d.profile)
	d.region.has = []site.RegionMachine{
		{SystemID: "abc123", Hostname: "renamed", Status: "Deployed", Taken: true},
		{SystemID: "def456", Hostname: "stranger", Status: "Allocated", Taken: true},
	}
	ask := func(hostnames ...string) onboarding.Check {
		var nodes []object
		for i, h := range hostnames {
			nodes = append(nodes, object{"hostname": h, "ipmi_ip": fmt.Sprintf("10.176.16.%d", 10+i)})
		}
		return checkOf(t, d.parts(t, nodes)[0], "machines_in_maas")
	}
	if c := ask("renamed"); c.OK || strings.Contains(c.Remedy, "release") ||
		!strings.Contains(c.Detail, "the machine of node c07u43, which is active") ||
		!strings.Contains(c.Remedy, "gpuaas node reimage") {
		t.Errorf("the machine of a node: %+v", c)
	}
	if c := ask("renamed", "stranger"); !strings.Contains(c.Remedy,
		"take stranger out of the request, or release them in MAAS") {
		t.Errorf("a node's and a stranger's: %+v", c)
	}
	d.region.has = []site.RegionMachine{{SystemID: "zzz", Hostname: "c07u43", Status: "Deployed", Taken: true}}
	if c := ask("c07u43"); c.OK || strings.Contains(c.Remedy, "release") {
		t.Errorf("a machine of the name of a node: %+v", c)
	}
}

// What cannot work is refused before anything is begun, with a reason for each machine.
func TestARequestThatCannotWorkIsRefusedWithReasons(t *testing.T) {
	d := newDesk(t)
	rows := func() int { return d.count(t, `SELECT count(*) FROM jobs`) }
	refused := func(path string, body object, fields map[string]string) {
		t.Helper()
		a := d.call(t, http.MethodPost, path, body)
		var problem struct {
			Code, Remedy string
			Errors       []struct{ Location, Message string }
		}
		a.Decode(t, &problem)
		if a.Status != http.StatusUnprocessableEntity || problem.Code != "onboarding_unworkable" || problem.Remedy == "" ||
			rows() != 0 {
			t.Errorf("%s answers %d %s with %d rows", path, a.Status, a.Body, rows())
		}
		for path, message := range fields {
			if !strings.Contains(string(a.Body), path) || !strings.Contains(string(a.Body), message) {
				t.Errorf("%s: %s is not said to be %q: %s", path, path, message, a.Body)
			}
		}
	}
	two := d.selectors(object{"nodes": []object{
		{"hostname": "c07u43", "ipmi_ip": "10.176.16.128"},
		{"hostname": "c07u44", "ipmi_ip": "10.176.16.129"},
	}})
	d.set(t, `INSERT INTO maas_roce_assignments (id, site_id, hostname, interface, ipv4_cidr, mtu) VALUES
		(gen_random_uuid(), $1, 'c07u44', 'enp1', '172.30.9.61/31', 9000), (gen_random_uuid(), $1, 'c07u44', 'enp2', '172.30.9.60/31', 9000)`, d.site)
	refused("onboardings/batch", two, map[string]string{"body.nodes[1].hostname": "is on the link of enp1"})
	d.set(t, `UPDATE maas_site_profiles SET site_bootstrap_bundle_ref = 'base@1'`)
	refused("onboardings", d.one(nil), map[string]string{"body.profile_id": "site_bundle_missing"})
	d.set(t, `INSERT INTO maas_site_bundles (id, site_id, name, version, digest, size, added_by)
		VALUES (gen_random_uuid(), $1, 'base', '1', repeat('0', 64), 1, 'test')`, d.site)
	refused("onboardings", d.one(nil), map[string]string{"body.profile_id": "site_bundle_digest_mismatch"})
	d.set(t, `UPDATE maas_site_profiles SET site_bootstrap_bundle_ref = ''`)
	d.set(t, `UPDATE maas_sites SET power_fingerprint = '', power_rotated_at = NULL`)
	refused("onboardings", d.one(nil), map[string]string{"body.ipmi_ip": "no default BMC credentials"})
	refused("onboardings/batch", two, map[string]string{
		"body.nodes[0].ipmi_ip": "c07u43: no override",
		"body.nodes[1].ipmi_ip": "c07u44: no override",
	})
	d.set(t, `UPDATE maas_sites SET api_token_fingerprint = '', api_token_rotated_at = NULL`)
	refused("onboardings", d.one(nil), map[string]string{"body.site_id": "has no MAAS token"})
}
