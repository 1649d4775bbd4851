package site_test

import (
	"testing"

	"gpuaas/controlplane/internal/engine/postgres/postgrestest"
)

// Profiles that exist keep what they do when less than was asked for can be done;
// new ones park.
func TestOnlyNewProfilesParkInsteadOfDoingLess(t *testing.T) {
	e := postgrestest.At(t, 30)
	if _, err := e.Owner.Exec(t.Context(), `
INSERT INTO maas_sites (id, name, region_code, api_base_url, pxe_iface, pxe_vlan_vid, node_pxe_iface, fingerprint_salt)
VALUES ('00000000-0000-7000-8000-000000000001', 'dc1', 'eu-1', 'http://maas/MAAS', 'eth0', 0, 'eth0',
    decode(repeat('00', 16), 'hex'));
INSERT INTO maas_site_profiles (id, site_id, name)
VALUES ('00000000-0000-7000-8000-000000000002', '00000000-0000-7000-8000-000000000001', 'old')`); err != nil {
		t.Fatal(err)
	}
	e.Forward(t)
	if _, err := e.Owner.Exec(t.Context(), `INSERT INTO maas_site_profiles (id, site_id, name)
VALUES ('00000000-0000-7000-8000-000000000003', '00000000-0000-7000-8000-000000000001', 'new')`); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"old": "true if_present 600", "new": "false required 600"} {
		var got string
		if err := e.Owner.QueryRow(t.Context(), `SELECT release_fallback_no_erase::text || ' ' || gpu_scrub || ' ' ||
			agent_timeout_seconds FROM maas_site_profiles WHERE name = $1`, name).Scan(&got); err != nil || got != want {
			t.Errorf("the %s profile has %q, want %q: %v", name, got, want, err)
		}
	}
}
