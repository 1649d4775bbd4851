package site_test

import (
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/httpapi/httpapitest"
	"gpuaas/controlplane/internal/fleet/site"
)

func secret(plain string) redact.Secret { return redact.New(plain) }

func (w *world) probe(tb testing.TB, path string) map[string]site.Check {
	tb.Helper()
	a := w.call(tb, http.MethodPost, path+"/probe", "", nil)
	if a.Status != http.StatusOK {
		tb.Fatalf("probe answers %d %s", a.Status, a.Body)
	}
	var v site.ProbeView
	a.Decode(tb, &v)
	out, all := map[string]site.Check{}, true
	for _, c := range v.Checks {
		out[c.Name] = c
		all = all && c.OK
		if !c.OK && (c.Code == "" || c.Remedy == "" || c.Detail == "") || c.OK && (c.Code != "" || c.Remedy != "") {
			tb.Errorf("check %+v is not complete", c)
		}
	}
	if len(out) != 15 || v.OK != all {
		tb.Errorf("probe says %+v", v)
	}
	return out
}

func TestProbeOfAHealthySite(t *testing.T) {
	w := newWorld(t)
	_, path := w.site(t, "dc1")
	w.credentials(t, path)
	for name, c := range w.probe(t, path) {
		if !c.OK {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

func TestProbeWithoutToken(t *testing.T) {
	w := newWorld(t)
	_, path := w.site(t, "dc1")
	checks := w.probe(t, path)
	if !checks["reachable"].OK || !checks["version"].OK || !checks["clock_skew"].OK ||
		checks["token_valid"].Code != "site_credentials_missing" || checks["images"].Code != "not_checked" {
		t.Errorf("checks are %+v", checks)
	}
}

func TestProbeSaysWhatIsWrong(t *testing.T) {
	for name, c := range map[string]struct {
		spoil       func(r *region)
		check, code string
		detail      string
	}{
		"gone": {func(r *region) { r.Close() }, "reachable", "maas_unreachable", ""},
		"HTML": {func(r *region) { r.on("version/", html(200)) }, "reachable", "maas_not_maas", ""},
		"redirect": {func(r *region) {
			r.on("version/",
				http.RedirectHandler("/elsewhere", http.StatusFound).ServeHTTP)
		}, "reachable", "maas_not_maas", ""},
		"truncated": {func(r *region) { r.say("version/", 200, `{"version": "3.`) }, "reachable", "", ""},
		"old": {
			func(r *region) { r.say("version/", 200, `{"version": "2.9.2"}`) }, "version",
			"maas_version_unsupported", "2.9.2",
		},
		"token revoked": {
			func(r *region) { r.say("users/ whoami", 401, `Authorization Error: Invalid API key.`) },
			"token_valid", "maas_token_invalid", "",
		},
		"not admin": {
			func(r *region) { r.say("users/ whoami", 200, `{"username": "joe", "is_superuser": false}`) },
			"token_admin", "maas_not_admin", "joe",
		},
		"name of 1 MB": {func(r *region) {
			r.say("rackcontrollers/", 200,
				`[{"hostname": "`+strings.Repeat("x", 1<<20)+`"}]`)
		}, "rack_controllers", "maas_rack_unhealthy", "…"},
		"control chars": {
			func(r *region) { r.say("rackcontrollers/", 200, `[{"hostname": "a\u001b[31m"}]`) },
			"rack_controllers", "maas_rack_unhealthy", "a?[31m",
		},
		"no rack": {func(r *region) { r.say("rackcontrollers/", 200, `[]`) }, "rack_controllers", "maas_no_rack", ""},
		"rack down": {func(r *region) {
			r.say("rackcontrollers/", 200, `[{"hostname": "r1", "service_set": [{"name": "rackd", "status": "dead"}]}]`)
		}, "rack_controllers", "maas_rack_unhealthy", "r1 (rackd dead)"},
		"rack error": {func(r *region) { r.say("rackcontrollers/", 500, `boom`) }, "rack_controllers", "", ""},
		"image missing": {
			func(r *region) { r.say("boot-resources/", 200, `[]`) }, "images", "maas_image_missing",
			"ubuntu/noble for amd64/generic (profile default)",
		},
		"other arch": {func(r *region) {
			r.say("boot-resources/", 200, `[{"id": 1, "name": "ubuntu/noble", "architecture": "arm64/ga-24.04"}]`)
		}, "images", "maas_image_missing", ""},
		"interval": {
			func(r *region) { r.say("maas/ get_config hardware_sync_interval", 200, `"1h"`) },
			"hw_sync_interval", "maas_hw_sync_interval", "profile default of site dc1 wants 15m",
		},
		"interval absurd": {
			func(r *region) { r.say("maas/ get_config hardware_sync_interval", 200, `null`) },
			"hw_sync_interval", "maas_hw_sync_interval", "",
		},
		"no DNS": {
			func(r *region) { r.say("maas/ get_config upstream_dns", 200, `null`) }, "dns_servers",
			"maas_dns_differs", "1.1.1.1, 8.8.8.8",
		},
		"clock": {func(r *region) { r.late() }, "clock_skew", "maas_clock_skew", "-10m"},
		"page of 20 MB": {
			func(r *region) { r.say("boot-resources/", 200, `["`+strings.Repeat("x", 20<<20)+`"]`) },
			"images", "maas_answer_too_large", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			_, path := w.site(t, "dc1")
			w.credentials(t, path)
			c.spoil(w.maas)
			got := w.probe(t, path)[c.check]
			if got.OK || c.code != "" && got.Code != c.code || got.Code == "not_checked" || got.Code == "internal" ||
				!strings.Contains(got.Detail, c.detail) {
				t.Errorf("%s is %+v", c.check, got)
			}
			if strings.Contains(w.logs.String(), "canary") {
				t.Error("the log holds a secret")
			}
		})
	}
}

// late makes the region answer with a clock that is ten minutes behind.
func (r *region) late() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, h := range r.answers {
		r.answers[key] = func(w http.ResponseWriter, q *http.Request) {
			w.Header().Set("Date", time.Now().Add(-10*time.Minute).UTC().Format(http.TimeFormat))
			h(w, q)
		}
	}
}

// A region that never answers costs a caller no more than the caller's patience.
func TestProbeOfAHungRegionEnds(t *testing.T) {
	w := newWorld(t)
	v, path := w.site(t, "dc1")
	w.credentials(t, path)
	ctx, cancel := context.WithCancel(system(t))
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop) })
	w.maas.on("rackcontrollers/", func(_ http.ResponseWriter, q *http.Request) {
		cancel() // the caller's time is over while the region hangs
		select {
		case <-q.Context().Done():
		case <-stop:
		}
	})
	checks, err := w.service.Probe(ctx, v.SiteID)
	if err != nil || len(checks) != 15 {
		t.Fatal(checks, err)
	}
	for _, c := range checks {
		if want := map[string]bool{
			"reachable": true, "version": true, "token_valid": true, "token_admin": true,
			"scripts": true, "bundle": true, "clock_skew": true, "hw_sync_source": true, "deploy_password": true,
		}[c.Name]; c.OK != want {
			t.Errorf("%+v", c)
		}
	}
}

func TestProbeStaysInTheAllowedNetworks(t *testing.T) {
	w := newWorld(t)
	_, path := w.site(t, "dc1")
	a := w.call(t, http.MethodPatch, path, `"1"`, object{"allowed_networks": []string{"10.0.0.0/8"}})
	if a.Status != http.StatusOK {
		t.Fatal(string(a.Body))
	}
	if c := w.probe(t, path)["reachable"]; c.OK || c.Code != "maas_address_refused" {
		t.Errorf("reachable is %+v", c)
	}
	if n := len(w.maas.calls()); n != 0 {
		t.Errorf("%d calls went out", n)
	}
	w.call(t, http.MethodPost, path+"/credentials", "", object{"api_token": goodToken}).
		Wants(t, http.StatusUnprocessableEntity, "maas_address_refused")
}

// Whoever may describe sites has the control plane call its own engines, by
// address or by a name, and says that loopback is allowed.
func TestAttackASiteOnLoopbackReachesTheEngines(t *testing.T) {
	w := newWorld(t)
	_, path := w.site(t, "dc1")
	w.strict.Store(true)
	port := w.maas.URL[strings.LastIndex(w.maas.URL, ":"):]
	version := 1
	for _, change := range []object{
		{"allowed_networks": []string{}},
		{"allowed_networks": []string{"127.0.0.0/8", "::1/128", "0.0.0.0/0"}},
		{"api_base_url": "http://localhost" + port},
		{"api_base_url": "http://127.0.0.2" + port},
		{"api_base_url": "http://[::1]" + port},
		{"api_base_url": "http://[::ffff:127.0.0.1]" + port},
	} {
		if a := w.call(t, http.MethodPatch, path, fmt.Sprintf(`"%d"`, version), change); a.Status != http.StatusOK {
			t.Fatalf("%v: %s", change, a.Body)
		}
		version++
		if c := w.probe(t, path)["reachable"]; c.OK || c.Code != "maas_address_refused" ||
			!strings.Contains(c.Remedy, "sites.loopback") {
			t.Errorf("%v: reachable is %+v", change, c)
		}
	}
	if n := len(w.maas.calls()); n != 0 {
		t.Errorf("%d calls went out", n)
	}
}

// A certificate is trusted only by the CA of the site.
func TestProbeOverTLS(t *testing.T) {
	w := newWorld(t)
	secure := httptest.NewUnstartedServer(w.maas)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	body := w.body("dc1")
	body["api_base_url"] = secure.URL
	var v site.View
	w.call(t, http.MethodPost, "", "", body).Decode(t, &v)
	path := "/" + v.SiteID.String()
	if c := w.probe(t, path)["reachable"]; c.OK || c.Code != "maas_tls" {
		t.Errorf("without its CA: %+v", c)
	}
	ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}))
	if a := w.call(t, http.MethodPatch, path, `"1"`, object{"ca_certificate": ca}); a.Status != http.StatusOK {
		t.Fatal(string(a.Body))
	}
	if c := w.probe(t, path)["reachable"]; !c.OK {
		t.Errorf("with its CA: %+v", c)
	}
	key := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("x")}))
	a := w.call(t, http.MethodPatch, path, `"2"`, object{"ca_certificate": ca + key})
	a.Wants(t, http.StatusUnprocessableEntity, "validation_error", "body.ca_certificate")
}

// The images of all active profiles are looked for.
func TestProbeLooksAtAllActiveProfiles(t *testing.T) {
	w := newWorld(t)
	_, path := w.site(t, "dc1")
	w.credentials(t, path)
	a := w.call(t, http.MethodPost, path+"/profiles", "", object{"name": "own", "distro_series": "gpuaas-h200-v2"})
	var p site.ProfileView
	a.Decode(t, &p)
	if c := w.probe(t, path)["images"]; c.OK || !strings.Contains(c.Detail, "gpuaas-h200-v2") ||
		strings.Contains(c.Detail, "noble") {
		t.Errorf("images is %+v", c)
	}
	w.call(t, http.MethodPatch, path+"/profiles/"+p.ProfileID.String(), `"1"`, object{"status": "disabled"})
	if c := w.probe(t, path)["images"]; !c.OK {
		t.Errorf("images is %+v", c)
	}
}

// Whoever answers in place of a MAAS that speaks plain HTTP has root on its
// machines, and a password that machines were given is everybody's: a site that
// was there before either was asked about says so until somebody decides.
func TestAttackASiteThatTrustsItsNetworkIsShownInRed(t *testing.T) {
	w := newWorld(t)
	v, path := w.site(t, "dc1")
	w.credentials(t, path)
	if v.HWSyncHTTP != site.SyncPinned {
		t.Errorf("a new site is %s", v.HWSyncHTTP)
	}
	if _, err := w.owner.Exec(t.Context(),
		`UPDATE maas_sites SET hw_sync_http = 'undecided', deploy_password_shared_until = clock_timestamp()`); err != nil {
		t.Fatal(err)
	}
	red := func(sync, password string) {
		t.Helper()
		checks := w.probe(t, path)
		if checks["hw_sync_source"].Code != sync || checks["deploy_password"].Code != password {
			t.Errorf("%+v, %+v", checks["hw_sync_source"], checks["deploy_password"])
		}
	}
	red("hw_sync_undecided", "deploy_password_shared")
	change := func(to string) httpapitest.Answer {
		var now site.View
		w.call(t, http.MethodGet, path, "", nil).Decode(t, &now)
		return w.call(t, http.MethodPatch, path, fmt.Sprintf(`"%d"`, now.Version), object{"hw_sync_http": to})
	}
	if a := change("undecided"); a.Status != http.StatusUnprocessableEntity {
		t.Errorf("back to undecided: %d %s", a.Status, a.Body)
	}
	if a := change("accepted"); a.Status != http.StatusOK {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	red("hw_sync_plain_http", "deploy_password_shared")
	w.credentials(t, path) // another password, or the same one anew
	if a := change("pinned"); a.Status != http.StatusOK {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	red("", "")
}
