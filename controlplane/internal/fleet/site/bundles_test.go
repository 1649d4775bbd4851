package site_test

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/blob"
	"gpuaas/controlplane/internal/engine/httpapi/httpapitest"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/postgres/postgrestest"
	"gpuaas/controlplane/internal/fleet/site"
)

const program = "#!/bin/sh\necho hello\n"

// send uploads a bundle up to its completion.
func (w *world) send(tb testing.TB, path, ref, content string) (upload site.BundleUploadView, last httpapitest.Answer) {
	tb.Helper()
	last = w.call(tb, http.MethodPost, path+"/bundle-uploads", "", object{
		"ref": ref, "sha256": blob.DigestOf([]byte(content)), "size": len(content),
	})
	if last.Status != http.StatusCreated {
		return upload, last
	}
	last.Decode(tb, &upload)
	for upload.Received < upload.Size {
		part := content[upload.Received:min(upload.Received+upload.MaxPart, upload.Size)]
		last = w.call(tb, http.MethodPost, path+"/bundle-uploads/"+upload.UploadID.String()+"/parts", "", object{
			"ref": ref, "offset": upload.Received, "data": []byte(part),
		})
		if last.Status != http.StatusOK {
			return upload, last
		}
		last.Decode(tb, &upload)
	}
	return upload, last
}

func (w *world) bundle(tb testing.TB, path, ref, content string) httpapitest.Answer {
	tb.Helper()
	upload, last := w.send(tb, path, ref, content)
	if last.Status >= http.StatusBadRequest {
		return last
	}
	return w.call(tb, http.MethodPost, path+"/bundle-uploads/"+upload.UploadID.String()+"/complete", "",
		object{"ref": ref})
}

func (w *world) uploaded(tb testing.TB, path, ref, content string) (v site.BundleView) {
	tb.Helper()
	a := w.bundle(tb, path, ref, content)
	if a.Status != http.StatusCreated {
		tb.Fatalf("upload answers %d %s", a.Status, a.Body)
	}
	a.Decode(tb, &v)
	return v
}

// use lets the default profile use a bundle, or roll back.
func (w *world) use(tb testing.TB, path, how string, body object) httpapitest.Answer {
	tb.Helper()
	profile := w.profiles(tb, path)[site.DefaultProfile].ProfileID.String()
	var b any
	if body != nil {
		b = body
	}
	return w.call(tb, http.MethodPost, path+"/profiles/"+profile+"/bundle"+how, "", b)
}

func TestBundlesAreUploadedUsedAndRolledBack(t *testing.T) {
	w := newWorld(t)
	v, path := w.site(t, "dc1")
	w.credentials(t, path)
	large := "#!/bin/sh\n" + strings.Repeat("# filler\n", 100_000) // two parts
	one, two := w.uploaded(t, path, "base@1", program), w.uploaded(t, path, "base@2", large)
	if one.SHA256 != blob.DigestOf([]byte(program)) || two.Size != int64(len(large)) || one.Ref != "base@1" {
		t.Fatalf("bundles are %+v, %+v", one, two)
	}
	used := func(ref, previous, digest string) {
		t.Helper()
		p := w.profiles(t, path)[site.DefaultProfile]
		if p.SiteBootstrapBundleRef != ref || p.PreviousBundleRef != previous || p.BundleSHA256 != digest {
			t.Fatalf("the profile has %+v, want %s before %s", p, ref, previous)
		}
	}
	done := func(a httpapitest.Answer) {
		t.Helper()
		if a.Status != http.StatusOK {
			t.Fatalf("it answers %d %s", a.Status, a.Body)
		}
	}
	w.use(t, path, "/rollback", nil).Wants(t, http.StatusConflict, "site_bundle_no_previous")
	done(w.use(t, path, "", object{"ref": "base@1"}))
	used("base@1", "", one.SHA256)
	done(w.use(t, path, "", object{"ref": "base@2", "sha256": two.SHA256}))
	used("base@2", "base@1", two.SHA256)
	done(w.use(t, path, "/rollback", nil))
	used("base@1", "", one.SHA256)
	w.use(t, path, "/rollback", nil).Wants(t, http.StatusConflict, "site_bundle_no_previous") // not forward again
	done(w.use(t, path, "", object{"ref": "base@2"}))
	used("base@2", "base@1", two.SHA256)
	if c := w.probe(t, path)["bundle"]; !c.OK || !strings.Contains(c.Detail, "base@2") {
		t.Errorf("the probe says %+v", c)
	}

	w.call(t, http.MethodDelete, path+"/bundles/"+two.BundleID.String(), "", nil).
		Wants(t, http.StatusConflict, "site_bundle_in_use")
	a := w.call(t, http.MethodDelete, path+"/bundles/"+one.BundleID.String(), "", nil)
	if a.Status != http.StatusNoContent {
		t.Fatalf("deletion answers %d %s", a.Status, a.Body)
	}
	used("base@2", "", two.SHA256)
	w.bundle(t, path, "base@1", program).Wants(t, http.StatusConflict, "site_bundle_version_taken")
	var list struct {
		Items []site.BundleView `json:"items"`
	}
	w.call(t, http.MethodGet, path+"/bundles", "", nil).Decode(t, &list)
	if len(list.Items) != 1 || list.Items[0].Ref != "base@2" || !slices.Equal(list.Items[0].UsedBy, []string{"default"}) {
		t.Errorf("the list is %+v", list.Items)
	}
	for action, want := range map[string]int64{
		"site_bundle.upload": 2, "site_profile.bundle_use": 3, "site_profile.bundle_rollback": 1, "site_bundle.delete": 1,
	} {
		if n := w.rows(t, `SELECT count(*) FROM audit_logs WHERE action = $1 AND target_id = $2`, action,
			v.SiteID.String()); n != want {
			t.Errorf("%d entries of %s", n, action)
		}
	}
	w.exec(t, `UPDATE blob_chunks SET data = '#!/bin/evil'`)
	if c := w.probe(t, path)["bundle"]; c.OK || c.Code != "site_bundle_unreadable" {
		t.Errorf("the probe of a damaged bundle says %+v", c)
	}
}

func TestWhatIsNoBundle(t *testing.T) {
	w := newWorld(t)
	_, path := w.site(t, "dc1")
	for _, c := range []struct{ ref, content, code string }{
		{"base@1", "PK\x03\x04 an archive", "site_bundle_unusable"},
		{"base@1", "no program", "site_bundle_unusable"},
		{"base@1", "#!/bin/sh\n" + strings.Repeat("x", 1<<20), "blob_too_large"},
		{"base@1", "", "blob_empty"},
		{"base", program, "site_bundle_ref_invalid"},
		{"../base@1", program, "site_bundle_ref_invalid"},
		{"base@../../secret", program, "site_bundle_ref_invalid"},
		{"base/x@1", program, "site_bundle_ref_invalid"},
		{"base@..", program, "site_bundle_ref_invalid"},
	} {
		w.bundle(t, path, c.ref, c.content).Wants(t, http.StatusUnprocessableEntity, c.code)
	}
	a := w.call(t, http.MethodPost, path+"/bundle-uploads", "", object{
		"ref": "base@1", "sha256": strings.Repeat("0", 64), "size": len(program),
	})
	var upload site.BundleUploadView
	a.Decode(t, &upload)
	at := path + "/bundle-uploads/" + upload.UploadID.String()
	w.call(t, http.MethodPost, at+"/complete", "", object{"ref": "base@1"}).
		Wants(t, http.StatusConflict, "blob_incomplete")
	w.call(t, http.MethodPost, at+"/parts", "", object{"ref": "base@2", "offset": 0, "data": []byte(program)}).
		Wants(t, http.StatusNotFound, "blob_upload_missing")
	w.call(t, http.MethodPost, at+"/parts", "", object{"ref": "base@1", "offset": 5, "data": []byte(program)}).
		Wants(t, http.StatusConflict, "blob_offset_mismatch")
	if a := w.call(t, http.MethodPost, at+"/parts", "", object{
		"ref": "base@1", "offset": 0, "data": []byte(program),
	}); a.Status != http.StatusOK {
		t.Fatalf("a part answers %d %s", a.Status, a.Body)
	}
	w.call(t, http.MethodPost, at+"/complete", "", object{"ref": "base@1"}).
		Wants(t, http.StatusUnprocessableEntity, "blob_digest_mismatch")

	w.uploaded(t, path, "base@1", program)
	w.use(t, path, "", object{"ref": "base@2"}).Wants(t, http.StatusConflict, "site_bundle_missing")
	w.use(t, path, "", object{"ref": "base@1", "sha256": strings.Repeat("0", 64)}).
		Wants(t, http.StatusConflict, "site_bundle_digest_mismatch")
	p := w.profiles(t, path)[site.DefaultProfile]
	w.call(t, http.MethodPatch, path+"/profiles/"+p.ProfileID.String(), `"1"`, object{"site_bootstrap_bundle_ref": "base@2"}).
		Wants(t, http.StatusConflict, "site_bundle_missing")
	w.call(t, http.MethodPost, path+"/profiles", "", object{"name": "strict", "site_bootstrap_bundle_ref": "base@2"}).
		Wants(t, http.StatusConflict, "site_bundle_missing")
	a = w.call(t, http.MethodPatch, path+"/profiles/"+p.ProfileID.String(), `"1"`, object{"site_bootstrap_bundle_ref": "base@1"})
	if a.Decode(t, &p); p.BundleSHA256 != blob.DigestOf([]byte(program)) {
		t.Errorf("the profile is pinned to %q", p.BundleSHA256)
	}
}

// Whoever uploads a bundle decides what machines run as root: that is the platform
// administrator alone, and what was chosen cannot be exchanged afterwards.
func TestAttackABundleIsSmuggledIn(t *testing.T) {
	w := newWorld(t)
	_, path := w.site(t, "dc1")
	body := object{"ref": "base@1", "sha256": blob.DigestOf([]byte(program)), "size": len(program)}
	w.callAs(t, httpapitest.Operator, http.MethodPost, path+"/bundle-uploads", "", body).
		Wants(t, http.StatusForbidden, "insufficient_permissions")
	made := w.uploaded(t, path, "base@1", program)
	w.callAs(t, httpapitest.Operator, http.MethodDelete, path+"/bundles/"+made.BundleID.String(), "", nil).
		Wants(t, http.StatusForbidden, "insufficient_permissions")
	if a := w.use(t, path, "", object{"ref": "base@1"}); a.Status != http.StatusOK {
		t.Fatalf("use answers %d %s", a.Status, a.Body)
	}
	w.bundle(t, path, "base@1", "#!/bin/evil\n").Wants(t, http.StatusConflict, "site_bundle_version_taken")

	// Somebody with access to the database exchanges the version.
	ctx := system(t)
	owner, err := w.service.Site(ctx, made.SiteID)
	if err != nil {
		t.Fatal(err)
	}
	evil := w.uploaded(t, path, "evil@1", "#!/bin/evil\n")
	w.exec(t, `UPDATE maas_site_bundles SET digest = $1 WHERE name = 'base'`, evil.SHA256)
	profiles, err := w.service.Profiles(ctx, made.SiteID, postgres.Slice[id.Profile]{Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	if got, _, err := w.service.BundleProgram(ctx, owner, profiles[0]); err == nil {
		t.Errorf("machines would run %q", got)
	}
	if c := w.probe(t, path)["bundle"]; c.Code != "site_bundle_digest_mismatch" {
		t.Errorf("the probe says %+v", c)
	}
}

// Sites of before bundles were uploaded get the files that workers read: until all of
// them were taken, then no more.
func TestBundlesOfAFolderAreImportedUntilAllAreTaken(t *testing.T) {
	folder := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		file := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("base/2026.11-3", program)
	write("base/broken", "no program")
	write("secret", "secret")
	if err := os.Symlink("/etc/hostname", filepath.Join(folder, "base", "link")); err != nil {
		t.Fatal(err)
	}
	e := postgrestest.At(t, 39)
	if _, err := e.Owner.Exec(t.Context(), `
INSERT INTO maas_sites (id, name, region_code, api_base_url, pxe_iface, pxe_vlan_vid, node_pxe_iface, fingerprint_salt)
VALUES ('00000000-0000-7000-8000-000000000001', 'dc1', 'eu-1', 'http://maas/MAAS', 'eth0', 0, 'eth0',
    decode(repeat('00', 16), 'hex'));
INSERT INTO maas_site_profiles (id, site_id, name, site_bootstrap_bundle_ref)
VALUES ('00000000-0000-7000-8000-000000000002', '00000000-0000-7000-8000-000000000001', 'default', 'base@2026.11-3'),
    ('00000000-0000-7000-8000-000000000003', '00000000-0000-7000-8000-000000000001', 'other', 'base@lost')`); err != nil {
		t.Fatal(err)
	}
	e.Forward(t)
	ctx := system(t)
	service := site.New(site.Config{DB: e.Owner})
	if _, err := service.ImportBundles(ctx, filepath.Join(folder, "gone")); err == nil {
		t.Error("a folder that is not there was read")
	}
	for round, want := range []struct{ sites, refused, bundles int }{{1, 2, 1}, {1, 0, 2}, {0, 0, 0}} {
		done, err := service.ImportBundles(ctx, folder)
		if err != nil || done.Sites != want.sites || len(done.Refused) != want.refused ||
			len(done.Bundles) != want.bundles {
			t.Fatalf("round %d: %+v, %v", round, done, err)
		}
		switch round {
		case 0: // somebody mends the folder
			write("base/broken", program+"# mended\n")
			if err := os.Remove(filepath.Join(folder, "base", "link")); err != nil {
				t.Fatal(err)
			}
		case 1:
			write("base/later", program)
		}
	}
	sites, err := service.Sites(ctx, nil, postgres.Slice[id.Site]{Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	profiles, err := service.Profiles(ctx, sites[0].ID, postgres.Slice[id.Profile]{Limit: 10})
	if err != nil || len(profiles) != 2 {
		t.Fatalf("profiles are %+v, %v", profiles, err)
	}
	if got, version, err := service.BundleProgram(ctx, sites[0], profiles[0]); string(got) != program ||
		version != "2026.11-3" {
		t.Errorf("the bundle is %q, %q, %v", got, version, err)
	}
	if _, _, err := service.BundleProgram(ctx, sites[0], profiles[1]); err == nil {
		t.Error("a bundle that was lost is there")
	}
	bundles, err := service.Bundles(ctx, sites[0].ID, postgres.Slice[id.SiteBundle]{Limit: 10})
	if err != nil || len(bundles) != 2 {
		t.Errorf("bundles are %+v, %v", bundles, err)
	}
}
