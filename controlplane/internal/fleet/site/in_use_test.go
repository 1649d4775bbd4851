package site_test

import (
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/site"
)

func (w *world) exec(tb testing.TB, query string, args ...any) {
	tb.Helper()
	if _, err := w.owner.Exec(tb.Context(), query, args...); err != nil {
		tb.Fatal(err)
	}
}

// bound makes a node whose machine belongs to a site and a profile.
func (w *world) bound(tb testing.TB, hostname string, at id.Site, by id.Profile) {
	tb.Helper()
	n := id.New[id.Node]()
	w.exec(tb, `INSERT INTO nodes (id, status, hostname, host, sku_id, gpus_total, region_code, onboarding_mode)
		VALUES ($1, 'active', $2, $2, 'h200-sxm-baremetal-8g', 8, 'eu-1', 'maas')`, n, hostname)
	w.exec(tb, `INSERT INTO node_maas_state (node_id, site_id, profile_id, maas_system_id) VALUES ($1, $2, $3, $4)`, n, at,
		by,
		hostname)
}

func (w *world) profiles(tb testing.TB, path string) map[string]site.ProfileView {
	tb.Helper()
	var list struct {
		Items []site.ProfileView `json:"items"`
	}
	w.call(tb, http.MethodGet, path+"/profiles", "", nil).Decode(tb, &list)
	out := map[string]site.ProfileView{}
	for _, p := range list.Items {
		out[p.Name] = p
	}
	return out
}

func TestASiteWithNodesIsDisabledAndNotDeleted(t *testing.T) {
	w := newWorld(t)
	v, path := w.site(t, "dc1")
	w.bound(t, "c07u31", v.SiteID, w.profiles(t, path)[site.DefaultProfile].ProfileID)
	for range 2 { // the second changes nothing
		if a := w.call(t, http.MethodDelete, path, "", nil); a.Status != http.StatusNoContent {
			t.Fatalf("deletion answers %d %s", a.Status, a.Body)
		}
		a := w.call(t, http.MethodGet, path, "", nil)
		a.Decode(t, &v)
		if a.Status != http.StatusOK || v.Status != site.Disabled || v.Version != 2 {
			t.Fatalf("the site is %d %s", a.Status, a.Body)
		}
	}
	w.call(t, http.MethodPost, "", "", w.body("dc1")).Wants(t, http.StatusConflict, "site_name_taken")
	if n := w.rows(t, `SELECT count(*) FROM audit_logs WHERE action = 'site.delete' AND target_id = $1`,
		v.SiteID.String()); n != 1 {
		t.Errorf("%d entries", n)
	}
	w.exec(t, `UPDATE nodes SET status = 'deleted'`)
	if a := w.call(t, http.MethodDelete, path, "", nil); a.Status != http.StatusNoContent {
		t.Fatalf("deletion answers %d %s", a.Status, a.Body)
	}
	w.call(t, http.MethodGet, path, "", nil).Wants(t, http.StatusNotFound, "not_found")
	w.site(t, "dc1")
}

// What was deleted while it was needed leaves with its secrets, once it is not.
func TestADeletedSiteLeavesWithItsSecrets(t *testing.T) {
	w := newWorld(t)
	v, path := w.site(t, "dc1")
	w.credentials(t, path)
	if a := w.call(t, http.MethodPost, path+"/power-overrides", "", object{
		"selector_type": "hostname", "selector_value": "c07u31", "user": "root", "pass": overridePass,
	}); a.Status != http.StatusCreated {
		t.Fatalf("override answers %d %s", a.Status, a.Body)
	}
	w.bound(t, "c07u31", v.SiteID, w.profiles(t, path)[site.DefaultProfile].ProfileID)
	w.uploaded(t, path, "base@1", program)
	secrets := site.SecretsPrefix + v.SiteID.String() + "/"
	tend := func(status, left int) {
		t.Helper()
		if err := w.service.Tend(system(t)); err != nil {
			t.Fatal(err)
		}
		if a := w.call(t, http.MethodGet, path, "", nil); a.Status != status {
			t.Errorf("the site answers %d, want %d", a.Status, status)
		}
		for _, name := range []string{"api-token", "power/default", "deploy-password"} {
			if n := len(w.stored(t, secrets+name)); n > 0 != (left > 0) {
				t.Errorf("%s has %d fields", name, n)
			}
		}
		if n := w.rows(t, `SELECT count(*) FROM maas_power_credential_overrides`); n != int64(left) {
			t.Errorf("%d overrides", n)
		}
		if n := w.rows(t, `SELECT count(*) FROM blob_references`); n != int64(left) {
			t.Errorf("%d bundles are stored", n)
		}
	}
	deleted := func() {
		t.Helper()
		if a := w.call(t, http.MethodDelete, path, "", nil); a.Status != http.StatusNoContent {
			t.Fatalf("deletion answers %d %s", a.Status, a.Body)
		}
	}
	deleted()
	tend(http.StatusOK, 1) // its node needs it
	w.call(t, http.MethodGet, path, "", nil).Decode(t, &v)
	if a := w.call(t, http.MethodPatch, path, `"`+strconv.FormatInt(v.Version, 10)+`"`,
		object{"status": "active"}); a.Status != http.StatusOK {
		t.Fatalf("enabling answers %d %s", a.Status, a.Body)
	}
	w.exec(t, `UPDATE nodes SET status = 'deleted'`)
	tend(http.StatusOK, 1) // enabling took the deletion back
	w.exec(t, `UPDATE nodes SET status = 'active'`)
	deleted()
	w.exec(t, `UPDATE maas_sites SET delete_requested_at = NULL`)
	deleted() // of a site that is disabled already, who asks is kept too
	deleted() // once
	if n := w.rows(t, `SELECT count(*) FROM audit_logs WHERE action = 'site.delete'`); n != 3 {
		t.Errorf("%d deletions are in the audit log", n)
	}
	w.exec(t, `UPDATE maas_sites SET status = 'active'`) // as a replica of before enables it
	w.exec(t, `UPDATE nodes SET status = 'deleted'`)
	tend(http.StatusOK, 1)
	w.exec(t, `UPDATE maas_sites SET status = 'disabled'`)
	tend(http.StatusNotFound, 0)
	tend(http.StatusNotFound, 0)
	if n := w.rows(t, `SELECT count(*) FROM audit_logs WHERE action = 'site.secrets_remove'`); n != 1 {
		t.Errorf("%d entries", n)
	}
}

func TestAProfileInUseIsNotDeleted(t *testing.T) {
	w := newWorld(t)
	v, path := w.site(t, "dc1")
	if a := w.call(t, http.MethodPost, path+"/profiles", "", object{"name": "strict"}); a.Status != http.StatusCreated {
		t.Fatalf("profile answers %d %s", a.Status, a.Body)
	}
	strict := w.profiles(t, path)["strict"].ProfileID
	for _, host := range []string{"n1", "n2", "n3", "n4", "n5", "n6", "n7"} {
		w.bound(t, host, v.SiteID, strict)
	}
	a := w.call(t, http.MethodDelete, path+"/profiles/"+strict.String(), "", nil)
	a.Wants(t, http.StatusConflict, "profile_in_use")
	for _, part := range []string{
		"the profile strict of site dc1 is in use by node n1, node n2, node n3, node n4, node n5, 2 more",
		"gpuaas site profile set dc1 strict status=disabled",
	} {
		if !strings.Contains(string(a.Body), part) {
			t.Errorf("%s lacks %q", a.Body, part)
		}
	}
	w.exec(t, `UPDATE nodes SET status = 'deleted'`)
	if a := w.call(t, http.MethodDelete, path+"/profiles/"+strict.String(), "", nil); a.Status != http.StatusNoContent {
		t.Errorf("deletion answers %d %s", a.Status, a.Body)
	}
}

// Versions before deleted what nodes still needed. The upgrade brings it back.
func TestDeletedSitesThatNodesNeedComeBack(t *testing.T) {
	w := newWorld(t)
	v, path := w.site(t, "dc1")
	w.bound(t, "c07u31", v.SiteID, w.profiles(t, path)[site.DefaultProfile].ProfileID)
	w.exec(t, `UPDATE maas_sites SET deleted_at = now(), status = 'disabled'`)
	w.exec(t, `UPDATE maas_site_profiles SET deleted_at = now(), status = 'disabled'`)
	_, other := w.site(t, "dc1") // given again since
	file, err := os.ReadFile("../../engine/postgres/migrations/00029_needed_sites.sql")
	if err != nil {
		t.Fatal(err)
	}
	up, _, _ := strings.Cut(string(file), "-- +goose Down")
	w.exec(t, up)
	a := w.call(t, http.MethodGet, path, "", nil)
	a.Decode(t, &v)
	if a.Status != http.StatusOK || v.Status != site.Disabled || !strings.HasPrefix(v.Name, "dc1-") {
		t.Errorf("the old site is %d %s", a.Status, a.Body)
	}
	if p, back := w.profiles(t, path)[site.DefaultProfile]; !back || p.Status != site.Disabled {
		t.Errorf("its profile is %+v", p)
	}
	if a := w.call(t, http.MethodGet, other, "", nil); !strings.Contains(string(a.Body), `"name":"dc1"`) {
		t.Errorf("the new site is %s", a.Body)
	}
}
