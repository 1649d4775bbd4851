package site_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/httpapi/httpapitest"
	"gpuaas/controlplane/internal/fleet/site"
)

func TestSiteOverTheAPI(t *testing.T) {
	w := newWorld(t)
	v, path := w.site(t, "dc1")
	if v.Status != site.Active || !strings.HasSuffix(v.APIBaseURL, "/MAAS") || v.DeployUser != "hpcadmin" ||
		v.MaxParallel != 20 ||
		len(v.UpstreamDNSServers) != 2 || v.APIToken.HasCredentials || v.Version != 1 {
		t.Errorf("a fresh site is %+v", v)
	}
	w.call(t, http.MethodPost, "", "", w.body("dc1")).Wants(t, http.StatusConflict, "site_name_taken")
	unknown := w.body("dc2")
	unknown["vault_path"] = "x"
	w.call(t, http.MethodPost, "", "", unknown).Wants(t, http.StatusUnprocessableEntity, "validation_error")

	a := w.call(t, http.MethodPatch, path, `"1"`,
		object{"status": "disabled", "pxe_vlan_vid": 0, "upstream_dns_servers": []string{"10.0.0.1"}})
	a.Decode(t, &v)
	if a.Status != http.StatusOK || v.Status != site.Disabled || v.PXEVLANVID != 0 ||
		v.UpstreamDNSServers[0] != "10.0.0.1" || a.Header.Get("ETag") != `"2"` {
		t.Errorf("answer is %d %s", a.Status, a.Body)
	}
	// Two administrators edit at once: the second is told.
	w.call(t, http.MethodPatch, path, `"1"`, object{"status": "active"}).
		Wants(t, http.StatusPreconditionFailed, "version_stale")
	w.call(t, http.MethodPatch, path, "", object{"status": "active"}).
		Wants(t, http.StatusPreconditionRequired, "precondition_required")
	w.call(t, http.MethodPatch, path, `"2"`, object{"status": "broken"}).
		Wants(t, http.StatusUnprocessableEntity, "validation_error")

	if a := w.call(t, http.MethodDelete, path, "", nil); a.Status != http.StatusNoContent {
		t.Errorf("deletion answers %d %s", a.Status, a.Body)
	}
	w.call(t, http.MethodGet, path, "", nil).Wants(t, http.StatusNotFound, "not_found")
	w.call(t, http.MethodGet, path+"/profiles", "", nil).Wants(t, http.StatusNotFound, "not_found")
	w.site(t, "dc1") // the name is free again
	for _, event := range []string{"site.created", "site.updated", "site.deleted"} {
		if n := w.rows(t, `SELECT count(*) FROM outbox_events WHERE event_type = $1 AND aggregate_id = $2`, event,
			v.SiteID.String()); n != 1 {
			t.Errorf("%d events %s", n, event)
		}
	}
	for _, action := range []string{"site.create", "site.update", "site.delete"} {
		if n := w.rows(t, `SELECT count(*) FROM audit_logs WHERE action = $1 AND target_id = $2`, action,
			v.SiteID.String()); n != 1 {
			t.Errorf("%d entries %s", n, action)
		}
	}
}

func TestRejectedSitesNameTheirFields(t *testing.T) {
	w := newWorld(t)
	for field, value := range map[string]any{
		"name": "No Name", "region_code": "EU 1", "api_base_url": "ftp://x/MAAS", "ca_certificate": "nonsense",
		"pxe_vlan_vid": 4095,
		"pxe_iface":    "a b", "node_pxe_iface": "", "deploy_user": "Root!", "deploy_ssh_iface": "way-too-long-name",
		"max_parallel":         0,
		"upstream_dns_servers": []string{},
	} {
		b := w.body("dc1")
		b[field] = value
		w.call(t, http.MethodPost, "", "", b).Wants(t, http.StatusUnprocessableEntity, "validation_error", "body."+field)
	}
	root := w.body("dc1")
	root["deploy_user"] = "root"
	w.call(t, http.MethodPost, "", "", root).
		Wants(t, http.StatusUnprocessableEntity, "validation_error", "body.deploy_user")
	for field, value := range map[string]any{
		"upstream_dns_servers": []string{"1.1.1.1", "dns"},
		"allowed_networks":     []string{"10.0.0.0/8", "x"},
	} {
		b := w.body("dc1")
		b[field] = value
		w.call(t, http.MethodPost, "", "", b).Wants(t, http.StatusUnprocessableEntity, "validation_error",
			"body."+field+"[1]")
	}
	a := w.call(t, http.MethodPost, "", "", object{"name": "x"})
	a.Wants(t, http.StatusUnprocessableEntity, "validation_error")
	if n := w.rows(t, `SELECT count(*) FROM maas_sites`); n != 0 {
		t.Errorf("%d sites were written", n)
	}
}

func TestSitesComeInPagesAndByStatus(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"a", "b", "c"} {
		w.site(t, name)
	}
	_, off := w.site(t, "off")
	w.call(t, http.MethodPatch, off, `"1"`, object{"status": "disabled"})
	var names []string
	for cursor := ""; ; {
		var page struct {
			Items      []site.View
			NextCursor string `json:"next_cursor"`
		}
		w.call(t, http.MethodGet, "?status=active&page_size=2&cursor="+cursor, "", nil).Decode(t, &page)
		for _, v := range page.Items {
			names = append(names, v.Name)
		}
		if cursor = page.NextCursor; cursor == "" {
			break
		}
	}
	if strings.Join(names, " ") != "a b c" {
		t.Errorf("listed %v", names)
	}
}

func TestProfilesOverTheAPI(t *testing.T) {
	w := newWorld(t)
	_, path := w.site(t, "dc1")
	var all struct{ Items []site.ProfileView }
	w.call(t, http.MethodGet, path+"/profiles", "", nil).Decode(t, &all)
	if len(all.Items) != 1 || all.Items[0].Name != site.DefaultProfile || all.Items[0].Policy != site.DefaultPolicy() ||
		all.Items[0].Version != 1 {
		t.Fatalf("a fresh site has the profiles %+v", all.Items)
	}
	standard := path + "/profiles/" + all.Items[0].ProfileID.String()
	a := w.call(t, http.MethodPatch, standard, `"1"`,
		object{"batch_max_parallel": 3, "hardware_sync_interval": "30 min", "require_hw_sync": false})
	var p site.ProfileView
	a.Decode(t, &p)
	if a.Status != http.StatusOK || p.BatchMaxParallel != 3 || p.HardwareSyncInterval != "30min" || p.RequireHWSync ||
		p.Version != 2 || a.Header.Get("ETag") != `"2"` {
		t.Errorf("answer is %d %s", a.Status, a.Body)
	}
	w.call(t, http.MethodPatch, standard, `"1"`, object{"batch_max_parallel": 4}).
		Wants(t, http.StatusPreconditionFailed, "version_stale")
	w.call(t, http.MethodPatch, standard, `"2"`, object{"status": "disabled"}).
		Wants(t, http.StatusConflict, "profile_default_required")
	w.call(t, http.MethodPatch, standard, `"2"`, object{"name": "other"}).
		Wants(t, http.StatusConflict, "profile_default_required")
	w.call(t, http.MethodDelete, standard, "", nil).Wants(t, http.StatusConflict, "profile_default_required")

	a = w.call(t, http.MethodPost, path+"/profiles", "", object{
		"name": "lxd", "distro_series": "gpuaas-h200-v2", "pxe_vlan_vid": 0, "minimum_erase": "secure",
		"minimum_sanitization": "purge", "remove_maas_record": true, "release_retired_machines": true,
		"return_healed_nodes": true,
	})
	a.Decode(t, &p)
	if a.Status != http.StatusCreated || p.DistroSeries != "gpuaas-h200-v2" || p.PXEVLANVID != 0 ||
		p.ReleaseTimeoutSeconds != 14400 ||
		p.MinimumErase != site.EraseSecure || p.MinimumSanitization != site.LevelPurge || !p.RemoveMAASRecord ||
		!p.ReleaseRetiredMachines || !p.ReturnHealedNodes {
		t.Errorf("answer is %d %s", a.Status, a.Body)
	}
	w.call(t, http.MethodPost, path+"/profiles", "", object{"name": "lxd"}).
		Wants(t, http.StatusConflict, "profile_name_taken")
	for field, value := range map[string]any{
		"distro_series": "a/b/c", "architecture": "amd64", "hardware_sync_interval": "often", "pxe_vlan_vid": 5000,
		"pxe_iface":                 "x y",
		"max_deploy_retry_attempts": 11, "enrollment_token_ttl_seconds": 1, "deploy_timeout_seconds": 0,
		"site_bootstrap_bundle_ref": "ü",
		"minimum_erase":             "full", "minimum_sanitization": "destroy",
	} {
		w.call(t, http.MethodPost, path+"/profiles", "", object{"name": "bad", field: value}).
			Wants(t, http.StatusUnprocessableEntity, "validation_error", "body."+field)
	}
	one := path + "/profiles/" + p.ProfileID.String()
	if a := w.call(t, http.MethodDelete, one, "", nil); a.Status != http.StatusNoContent {
		t.Errorf("deletion answers %d %s", a.Status, a.Body)
	}
	w.call(t, http.MethodGet, one, "", nil).Wants(t, http.StatusNotFound, "not_found")
}

// The columns know the same defaults as the program.
func TestDefaultsOfColumnsAreThoseOfThePolicy(t *testing.T) {
	w := newWorld(t)
	v, path := w.site(t, "dc1")
	if _, err := w.owner.Exec(t.Context(), `INSERT INTO maas_site_profiles (id, site_id, name) VALUES ($1, $2, 'plain')`,
		id.NewString(), v.SiteID.String()); err != nil {
		t.Fatal(err)
	}
	var all struct{ Items []site.ProfileView }
	w.call(t, http.MethodGet, path+"/profiles", "", nil).Decode(t, &all)
	for _, p := range all.Items {
		if p.Policy != site.DefaultPolicy() {
			t.Errorf("%s is %+v", p.Name, p.Policy)
		}
	}
}

// Every knob is explained where an administrator of the database looks.
func TestEveryColumnOfPolicyIsDocumented(t *testing.T) {
	w := newWorld(t)
	n := w.rows(t, `SELECT count(*) FROM information_schema.columns c
		WHERE table_name = 'maas_site_profiles' AND column_name NOT IN ('id', 'site_id', 'name', 'description', 'status', 'version', 'created_at', 'updated_at', 'deleted_at')
		AND col_description('maas_site_profiles'::regclass, ordinal_position::int) IS NULL`)
	if n != 0 {
		t.Errorf("%d columns have no comment", n)
	}
}

func TestDisabledSitesRefuseNewWork(t *testing.T) {
	w := newWorld(t)
	v, path := w.site(t, "dc1")
	begin := func(profile id.Profile) (code string) {
		err := w.db.InTx(system(t), func(ctx context.Context, tx pgx.Tx) error {
			_, p, err := site.ForNewWork(ctx, tx, v.SiteID, profile)
			if err == nil && p.Name != site.DefaultProfile {
				t.Errorf("the profile is %s", p.Name)
			}
			return err
		})
		if err == nil {
			return ""
		}
		return fault.CodeOf(err)
	}
	if code := begin(id.Profile{}); code != "" {
		t.Errorf("an active site: %s", code)
	}
	if code := begin(id.New[id.Profile]()); code != "not_found" {
		t.Errorf("an unknown profile: %s", code)
	}
	w.call(t, http.MethodPatch, path, `"1"`, object{"status": "disabled"})
	if code := begin(id.Profile{}); code != "site_disabled" {
		t.Errorf("a disabled site: %s", code)
	}
	w.call(t, http.MethodPatch, path, `"2"`, object{"status": "active"})
	if code := begin(id.Profile{}); code != "" {
		t.Errorf("an enabled site: %s", code)
	}
}

func TestAuditorsReadAndOthersDoNothing(t *testing.T) {
	w := newWorld(t)
	_, path := w.site(t, "dc1")
	for _, c := range []struct {
		who, method, path string
		status            int
	}{
		{"auditor", http.MethodGet, path, 200},
		{"auditor", http.MethodGet, path + "/roce-assignments", 200},
		{"auditor", http.MethodPost, path + "/probe", 403},
		{"auditor", http.MethodDelete, path, 403},
		{"guest", http.MethodGet, path, 403},
	} {
		if a := w.callAs(t, c.who, c.method, c.path, "", nil); a.Status != c.status {
			t.Errorf("%s %s %s answers %d %s", c.who, c.method, c.path, a.Status, a.Body)
		}
	}
}

// Operators set profiles up, but what binds them when they clean machines is not
// theirs to change.
func TestAttackAnOperatorLowersWhatBindsOperators(t *testing.T) {
	w := newWorld(t)
	_, path := w.site(t, "dc1")
	for field, value := range map[string]any{
		"minimum_erase": "none", "minimum_sanitization": "clear", "release_fallback_no_erase": true,
		"require_enrollment_address": false, "auto_claim_single_new_machine": true,
	} {
		strict := object{
			"name": "strict", "minimum_erase": "secure", "minimum_sanitization": "purge", "release_fallback_no_erase": false,
			"require_enrollment_address": true, "auto_claim_single_new_machine": false,
		}
		strict["name"] = "strict-" + strings.ReplaceAll(field, "_", "-")
		var p site.ProfileView
		w.call(t, http.MethodPost, path+"/profiles", "", strict).Decode(t, &p)
		one := path + "/profiles/" + p.ProfileID.String()
		w.callAs(t, httpapitest.Operator, http.MethodPatch, one, `"1"`, object{field: value}).
			Refused(t, http.StatusForbidden, "insufficient_permissions")
		if a := w.callAs(t, httpapitest.Operator, http.MethodPatch, one, `"1"`, object{"batch_max_parallel": 7}); a.Status != http.StatusOK {
			t.Errorf("an operator changes a limit: %d %s", a.Status, a.Body)
		}
	}
}
