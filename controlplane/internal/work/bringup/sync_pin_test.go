package bringup_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/fleet/agenttask"
	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/job"
)

// without puts something before MAAS that answers for the program that reports
// hardware with a status of its own.
func (w *world) without(t *testing.T, status int) {
	t.Helper()
	target, err := url.Parse(strings.TrimSuffix(w.sim.URL, "/MAAS"))
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	front := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/maas-run-scripts") {
			http.Error(rw, "not here", status)
			return
		}
		proxy.ServeHTTP(rw, r)
	}))
	t.Cleanup(front.Close)
	at := front.URL + "/MAAS"
	if _, err := w.owner.Exec(t.Context(), `UPDATE maas_sites SET api_base_url = $2 WHERE id = $1`, w.site.ID, at); err != nil {
		t.Fatal(err)
	}
	secret := map[string]redact.Secret{"token": redact.New(w.sim.Token), "api_base_url": redact.New(at)}
	if err := w.vault.Put(t.Context(), "maas-sites/"+w.site.ID.String()+"/api-token", secret); err != nil {
		t.Fatal(err)
	}
	if w.site, err = w.sites.Site(system(t), w.site.ID); err != nil {
		t.Fatal(err)
	}
}

// Whoever answers in place of a MAAS that speaks plain HTTP would be root on the
// machines of every site of before anybody was asked. Such a site pins the program
// like any other; only somebody's decision lets root run whatever comes.
func TestAttackPlainSyncNeedsADecision(t *testing.T) {
	const checks = "sha256sum --check --strict"
	w := newWorld(t, aFleet(2))
	n := 0
	for decision, pinned := range map[site.SyncHTTP]bool{site.SyncUndecided: true, site.SyncAccepted: false} {
		n++
		job := w.ready(t, n)
		job.Site.Settings.HWSyncHTTP = decision
		w.does(t, bringup.RenderCloudInit, job)
		if got := strings.Contains(w.userData(t, job), checks); got != pinned {
			t.Errorf("%s: what root runs is pinned: %v, want %v", decision, got, pinned)
		}
	}
}

// Where no digest can be had, nothing is rendered, and the failure names all that
// can be done about it.
func TestAttackASiteThatHidesItsProgramGetsNoPlainSync(t *testing.T) {
	t.Parallel()
	for status, class := range map[int]job.FailureClass{
		http.StatusNotFound: bringup.SiteCapabilityMissing, http.StatusForbidden: bringup.SiteCapabilityMissing,
		http.StatusInternalServerError: bringup.UpstreamTransient,
	} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			w := newWorld(t, aFleet(1))
			w.without(t, status)
			job := w.ready(t, 1)
			job.Site.Settings.HWSyncHTTP = site.SyncUndecided
			f := w.fails(t, bringup.RenderCloudInit, job, class, "hw_sync_program_missing")
			for _, choice := range []string{"https", "--hw-sync-http pinned", "--hw-sync-http accepted"} {
				if !strings.Contains(f.Remedy, choice) {
					t.Errorf("the remedy does not name %q: %s", choice, f.Remedy)
				}
			}
			if f.Final != (class == bringup.SiteCapabilityMissing) {
				t.Errorf("final: %v", f.Final)
			}
			if job.Facts.FirstBootDigest != "" {
				t.Error("a first boot was rendered")
			}
		})
	}
}

// A node with an agent is seeded with the digest, or not at all.
func TestAttackAReseedNeedsThePin(t *testing.T) {
	t.Parallel()
	tasks, later := &agenttask.Commands{}, atomic.Int64{}
	w, _, job := deployedWorld(t, func(p *plan) {
		p.config.Tasks = tasks
		p.config.Clock = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	})
	tasks.DB = w.db
	if _, err := w.owner.Exec(t.Context(), `UPDATE nodes SET first_poll_at = now(), agent_instance = 'm', hardware_said = true WHERE id = $1`, job.Node); err != nil {
		t.Fatal(err)
	}
	w.without(t, http.StatusNotFound)
	later.Store(int64(10 * time.Second)) // the address of MAAS is read anew
	job.Site = w.site
	job.Site.Settings.HWSyncHTTP = site.SyncUndecided
	job.Facts.Adopted = true
	w.fails(t, bringup.EnsureHardwareSyncConfigured, job, bringup.SiteCapabilityMissing, "hw_sync_program_missing")
	var n int
	if err := w.owner.QueryRow(t.Context(), `SELECT count(*) FROM node_tasks WHERE node_id = $1`, job.Node).Scan(&n); err != nil || n != 0 {
		t.Errorf("%d tasks were given, %v", n, err)
	}
}
