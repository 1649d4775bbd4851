package reconciliation_test

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/httpapi"
	"gpuaas/controlplane/internal/engine/httpapi/httpapitest"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/postgres/postgrestest"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/work/reconciliation"
)

// noon is the time by the clock of the desk.
var noon = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// desk is the API of reconciliation over rows that a test wrote.
type desk struct {
	owner        *postgres.DB
	service      *reconciliation.Service
	api          *httpapi.API
	reimageFails bool
}

func newDesk(tb testing.TB) *desk {
	tb.Helper()
	o := &desk{}
	var db *postgres.DB
	db, o.owner = postgrestest.NewWithOwner(tb)
	o.service = reconciliation.New(reconciliation.Config{
		DB: db, Sites: site.New(site.Config{DB: db}), Nodes: node.New(node.Config{DB: db}),
		Clock: func() time.Time { return noon }, Reimage: o.reimage,
	})
	o.api = httpapitest.New(db)
	o.service.Register(o.api)
	return o
}

// reimage replaces decommissions.
func (o *desk) reimage(context.Context, id.Node, string) (string, error) {
	if o.reimageFails {
		return "", fault.New(fault.Conflict, "node_busy", "a job works on the node").WithRemedy("wait for the job")
	}
	return "decommission " + id.NewString(), nil
}

func (o *desk) get(tb testing.TB, path string) httpapitest.Answer {
	tb.Helper()
	return o.callAs(tb, "auditor", http.MethodGet, path, "", nil)
}

func (o *desk) post(tb testing.TB, path string, body map[string]any) httpapitest.Answer {
	tb.Helper()
	return o.callAs(tb, "root", http.MethodPost, path, "", body)
}

func (o *desk) callAs(tb testing.TB, token, method, path, key string, body map[string]any) httpapitest.Answer {
	tb.Helper()
	r := httpapitest.Request{As: token, Method: method, Path: "/api/v1/admin/reconciliation" + path}
	if body != nil {
		r.Body, r.Key = body, key
	}
	return httpapitest.Call(tb, o.api.Handler(), r)
}

func (o *desk) exec(tb testing.TB, query string, args ...any) {
	tb.Helper()
	if _, err := o.owner.Exec(tb.Context(), query, args...); err != nil {
		tb.Fatal(err)
	}
}

// site makes a site whose MAAS last answered everything so long before noon;
// nil means never.
func (o *desk) site(tb testing.TB, name string, informed *time.Duration) id.Site {
	tb.Helper()
	at := id.New[id.Site]()
	o.exec(tb, `INSERT INTO maas_sites (id, name, region_code, api_base_url, pxe_iface, pxe_vlan_vid, node_pxe_iface, fingerprint_salt, created_at)
		VALUES ($1, $2, 'eu-1', 'http://' || $2 || '.example:5240/MAAS', 'ens19', 0, 'eno1', decode(repeat('00', 16), 'hex'), $3)`, at, name, noon.Add(-time.Minute))
	o.exec(tb, `INSERT INTO maas_site_profiles (id, site_id, name) VALUES ($1, $2, 'default')`, id.New[id.Profile](), at)
	if informed != nil {
		o.exec(tb, `INSERT INTO reconciliation_sites (site_id, last_cycle_at, last_informed_at, last_outcome) VALUES ($1, $2, $2, 'informed')`, at, noon.Add(-*informed))
	}
	return at
}

func ago(d time.Duration) *time.Duration { return &d }

// node makes a node whose machine was last read so long before noon; nil means
// never.
func (o *desk) node(tb testing.TB, hostname string, at id.Site, read *time.Duration) id.Node {
	tb.Helper()
	n := id.New[id.Node]()
	var readAt *time.Time
	if read != nil {
		t := noon.Add(-*read)
		readAt = &t
	}
	o.exec(tb, `INSERT INTO nodes (id, status, hostname, host, sku_id, gpus_total, region_code, onboarding_mode)
		VALUES ($1, 'active', $2, $2, 'h200-sxm-baremetal-8g', 8, 'eu-1', 'maas')`, n, hostname)
	o.exec(tb, `INSERT INTO node_maas_state (node_id, site_id, profile_id, maas_system_id, last_maas_status, last_maas_power_state, last_reconciled_at)
		SELECT $1, $2, p.id, 'sys-' || $3, 'Ready', 'off', $4 FROM maas_site_profiles p WHERE p.site_id = $2`, n, at, hostname, readAt)
	return n
}

// finding describes the finding that a test wants. Zero fields have usual
// values.
type finding struct {
	site       id.Site
	node       id.Node // zero: about none
	kind       reconciliation.Type
	severity   reconciliation.Severity
	status     reconciliation.Status
	occurrence int
	opened     time.Duration // before noon
}

// find writes a finding and, if it is not over, marks its node as drifting.
func (o *desk) find(tb testing.TB, f finding) id.Finding {
	tb.Helper()
	made := id.New[id.Finding]()
	if f.kind == "" {
		f.kind = reconciliation.TypeReleased
	}
	if f.severity == "" {
		f.severity = reconciliation.Critical
	}
	if f.status == "" {
		f.status = reconciliation.Confirmed
	}
	var about *id.Node
	subject := "settings"
	if !f.node.IsZero() {
		about, subject = &f.node, f.node.String()
	}
	at := noon.Add(-f.opened)
	var closed *time.Time
	if f.status == reconciliation.Closed {
		closed = &at
	}
	o.exec(tb, `INSERT INTO reconciliation_findings (id, site_id, node_id, type, severity, subject, status, expected, observed, message, occurrence, action,
		opened_at, last_seen_at, closed_at) VALUES ($1, $2, $3, $4, $5, $6, $7, 'Deployed', 'Ready', 'it was released', greatest($8, 1), 'quarantine', $9, $9, $10)`,
		made, f.site, about, f.kind, f.severity, subject, f.status, f.occurrence, at, closed)
	if about != nil && closed == nil {
		o.exec(tb, `UPDATE node_maas_state SET drift_detected = true WHERE node_id = $1`, f.node)
	}
	return made
}

func TestStatusCountsEveryNodeOnce(t *testing.T) {
	o := newDesk(t)
	dc1 := o.site(t, "dc1", ago(time.Minute))
	dc2 := o.site(t, "dc2", ago(16*time.Minute)) // the limit is 15
	o.site(t, "dc3", nil)
	paused := o.site(t, "dc4", ago(24*time.Hour))
	o.exec(t, `UPDATE maas_sites SET status = 'disabled' WHERE id = $1`, paused)
	gone := o.site(t, "dc5", ago(24*time.Hour))
	o.exec(t, `UPDATE maas_sites SET deleted_at = now() WHERE id = $1`, gone)
	unheard := o.site(t, "dc6", ago(time.Minute))
	o.exec(t, `UPDATE reconciliation_sites SET last_outcome = 'no_information', last_error_code = 'maas_unavailable', last_error_message = 'MAAS does not answer' WHERE site_id = $1`, unheard)

	o.node(t, "ok", dc1, ago(119*time.Minute))
	o.node(t, "late", dc1, ago(121*time.Minute)) // two sweeps
	o.node(t, "never", dc1, nil)
	drifted := o.node(t, "drifted", dc1, ago(3*time.Hour)) // also late: counted once
	o.find(t, finding{site: dc1, node: drifted})
	o.find(t, finding{site: dc1, kind: reconciliation.TypeUnusedPowerOverride, severity: reconciliation.Info})
	o.find(t, finding{site: dc1, node: drifted, status: reconciliation.Closed, opened: time.Hour})
	deleted := o.node(t, "deleted", dc1, nil)
	o.exec(t, `UPDATE nodes SET status = 'deleted' WHERE id = $1`, deleted)
	b := o.node(t, "b", dc2, ago(time.Minute))
	a := o.node(t, "a", dc2, ago(time.Minute))
	o.exec(t, `UPDATE reconciliation_sites SET tripped_at = $2, tripped_nodes = ARRAY[$3, $4]::uuid[] WHERE site_id = $1`,
		dc2, noon.Add(-time.Minute), b, a)

	var got reconciliation.Overview
	o.get(t, "/status").Into(t, http.StatusOK, &got)
	if want := (reconciliation.Totals{Nodes: 6, OK: 3, Drifted: 1, Unreconciled: 2, StaleSites: 1}); got.Totals != want {
		t.Errorf("totals are %+v, want %+v", got.Totals, want)
	}
	states := []reconciliation.SiteState{
		reconciliation.SiteOK, reconciliation.SiteBreakerOpen, reconciliation.SiteNever, reconciliation.SitePaused,
		reconciliation.SiteUnheard,
	}
	if len(got.Sites) != len(states) {
		t.Fatalf("sites are %+v", got.Sites)
	}
	for i, want := range states {
		if s := got.Sites[i]; s.State != want || s.Remedy == "" || !strings.Contains(s.Remedy, s.Name) {
			t.Errorf("%s is %s, want %s (%q)", s.Name, s.State, want, s.Remedy)
		}
	}
	first := got.Sites[0]
	if first.Nodes != 4 || first.OK != 1 || first.Drifted != 1 || first.Unreconciled != 2 ||
		first.Findings != (reconciliation.FindingCounts{Critical: 1, Info: 1}) || first.Breaker != nil {
		t.Errorf("dc1 is %+v", first)
	}
	open := got.Sites[1]
	if !open.Stale || open.Breaker == nil || len(open.Breaker.Nodes) != 2 || open.Breaker.Nodes[0].Hostname != "a" ||
		!open.Breaker.Since.Equal(noon.Add(-time.Minute)) {
		t.Errorf("dc2 is %+v", open)
	}
	if e := got.Sites[4].LastError; e == nil || e.Code != "maas_unavailable" {
		t.Errorf("the last error of dc6 is %+v", e)
	}
	o.exec(t, `UPDATE reconciliation_sites SET tripped_at = NULL WHERE site_id = $1`, dc2)
	o.exec(t, `UPDATE maas_sites SET created_at = $1 WHERE name = 'dc3'`, noon.Add(-time.Hour))
	o.get(t, "/status").Into(t, http.StatusOK, &got)
	if got.Sites[1].State != reconciliation.SiteStale || got.Sites[2].State != reconciliation.SiteStale ||
		got.Totals.StaleSites != 2 {
		t.Errorf("dc2 and dc3 are %s and %s", got.Sites[1].State, got.Sites[2].State)
	}
}

// page is a page of a listing.
type page[T any] struct {
	Items      []T
	NextCursor string `json:"next_cursor"`
}

func (o *desk) drifting(tb testing.TB, query string) (names []string) {
	tb.Helper()
	for cursor := ""; ; {
		var p page[reconciliation.DriftView]
		o.get(tb, "/drift?page_size=2&"+query+cursor).Into(tb, http.StatusOK, &p)
		for _, v := range p.Items {
			names = append(names, v.Hostname)
		}
		if p.NextCursor == "" {
			return names
		}
		cursor = "&cursor=" + p.NextCursor
	}
}

func TestDriftIsListedTheWorstFirst(t *testing.T) {
	o := newDesk(t)
	dc1, dc2 := o.site(t, "dc1", ago(0)), o.site(t, "dc2", ago(0))
	o.node(t, "fine", dc1, ago(0))
	add := func(name string, at id.Site, found ...finding) id.Node {
		n := o.node(t, name, at, ago(time.Minute))
		for _, f := range found {
			f.site, f.node = at, n
			o.find(t, f)
		}
		return n
	}
	mild := finding{kind: reconciliation.TypeHostnameDrift, severity: reconciliation.Info}
	add("d", dc1, finding{})
	add("a", dc1, mild)
	add("b", dc2, mild, finding{kind: reconciliation.TypePoweredOff, severity: reconciliation.Warning, occurrence: 3})
	add("c", dc2, finding{occurrence: 4}, mild)
	add("healed", dc1, finding{status: reconciliation.Closed})
	away := add("away", dc1, finding{})
	o.exec(t, `UPDATE nodes SET status = 'deleted' WHERE id = $1`, away)
	for query, want := range map[string]string{
		"": "c d b a", "site_id=" + dc2.String(): "c b", "severity=info": "c b a", "severity=critical": "c d",
		"type=hostname_drift": "c b a",
		"repeated=true":       "c b", "repeated=true&severity=warning": "b", "type=hostname_drift&repeated=true": "",
		"site_id=" + dc1.String() + "&severity=warning": "",
	} {
		if got := strings.Join(o.drifting(t, query), " "); got != want {
			t.Errorf("%q lists %q, want %q", query, got, want)
		}
	}
	o.get(t, "/drift?site_id=x").Refused(t, http.StatusUnprocessableEntity, "validation_error")
	o.get(t, "/drift?severity=loud").Refused(t, http.StatusUnprocessableEntity, "validation_error")
	o.get(t, "/drift?cursor=x").Refused(t, http.StatusUnprocessableEntity, "cursor_invalid")
}

func TestDriftOfANodeSaysWhatToDo(t *testing.T) {
	o := newDesk(t)
	dc1 := o.site(t, "dc1", ago(0))
	n := o.node(t, "c07u43", dc1, ago(time.Minute))
	var v reconciliation.DriftDetailView
	o.get(t, "/drift/"+n.String()).Into(t, http.StatusOK, &v)
	if v.Drifted || len(v.Findings) != 0 || len(v.History) != 0 || v.Severity != "" || v.MAASStatus != "Ready" ||
		v.SiteName != "dc1" {
		t.Errorf("a node that is as it should be: %+v", v)
	}
	o.find(t, finding{site: dc1, node: n, status: reconciliation.Closed, opened: 2 * time.Hour})
	o.find(t, finding{site: dc1, node: n, status: reconciliation.Closed, opened: time.Hour})
	o.find(t, finding{
		site: dc1, node: n, kind: reconciliation.TypeHostnameDrift, severity: reconciliation.Info,
		opened: 3 * time.Hour,
	})
	o.find(t, finding{site: dc1, node: n, occurrence: 3})
	o.find(t, finding{site: dc1, node: n, kind: "of_a_newer_release", severity: reconciliation.Debug})
	o.get(t, "/drift/"+n.String()).Into(t, http.StatusOK, &v)
	if !v.Drifted || v.Severity != reconciliation.Critical || len(v.Findings) != 3 || len(v.History) != 2 ||
		!v.History[0].OpenedAt.Equal(noon.Add(-time.Hour)) {
		t.Fatalf("the node is %+v", v)
	}
	worst := v.Findings[0]
	if worst.Type != reconciliation.TypeReleased || worst.Title == "" || worst.Means == "" || worst.Occurrence != 3 ||
		worst.Action != reconciliation.Quarantine || worst.NodeID == nil {
		t.Errorf("the worst finding is %+v", worst)
	}
	if unknown := v.Findings[2]; unknown.Title != "of_a_newer_release" || len(unknown.Advice) != 0 {
		t.Errorf("a finding that this release does not know is %+v", unknown)
	}
	if len(v.History[0].Advice) != 0 {
		t.Errorf("there is something to do about what is over: %+v", v.History[0].Advice)
	}
	commands := 0
	for i, a := range v.Advice {
		if strings.Contains(a.Command, "NODE") || strings.Contains(a.Command, "SITE") || a.Command == "" && a.What == "" {
			t.Errorf("advice %+v", a)
		}
		if a.Command != "" {
			commands++
		}
		for _, b := range v.Advice[:i] {
			if a == b {
				t.Errorf("advice %+v is given twice", a)
			}
		}
	}
	if commands == 0 || !strings.Contains(v.Advice[0].Command, "c07u43") {
		t.Errorf("advice is %+v", v.Advice)
	}
	o.get(t, "/drift/"+id.NewString()).Refused(t, http.StatusNotFound, "node_not_found")
}

func TestFindingsAreListedByFilterAndPage(t *testing.T) {
	o := newDesk(t)
	dc1, dc2 := o.site(t, "dc1", ago(0)), o.site(t, "dc2", ago(0))
	n := o.node(t, "c07u43", dc1, ago(0))
	names := map[id.Finding]string{
		o.find(t, finding{
			site: dc1, node: n, opened: 4 * time.Hour,
			status: reconciliation.Closed,
		}): "closed",
		o.find(t, finding{
			site: dc1, node: n, opened: 3 * time.Hour,
			status: reconciliation.Acted,
		}): "acted",
		o.find(t, finding{
			site: dc1, opened: 2 * time.Hour, kind: reconciliation.TypeUnusedPowerOverride,
			severity: reconciliation.Info,
		}): "setting",
		o.find(t, finding{
			site: dc2, opened: 119 * time.Minute, kind: reconciliation.TypeUnusedPowerOverride,
			severity: reconciliation.Info,
		}): "other",
		o.find(t, finding{
			site: dc1, node: n, opened: time.Hour, kind: reconciliation.TypePoweredOff,
			severity: reconciliation.Warning, status: "open",
		}): "open",
	}
	for query, want := range map[string]string{
		"": "open other setting acted closed", "site_id=" + dc2.String(): "other",
		"node_id=" + n.String(): "open acted closed", "status=present": "open other setting acted",
		"status=closed": "closed", "status=open": "open", "severity=info": "other setting", "type=powered_off": "open",
		"since=2026-06-01T10:00:00Z":                                "open other setting",
		"site_id=" + dc1.String() + "&status=present&severity=info": "setting",
	} {
		var got []string
		for cursor := ""; ; {
			var p page[reconciliation.FindingView]
			o.get(t, "/findings?page_size=2&"+query+cursor).Into(t, http.StatusOK, &p)
			for _, v := range p.Items {
				got = append(got, names[v.FindingID])
				if (v.NodeID == nil) != (names[v.FindingID] == "setting" || names[v.FindingID] == "other") {
					t.Errorf("%s is about node %v", names[v.FindingID], v.NodeID)
				}
			}
			if p.NextCursor == "" {
				break
			}
			cursor = "&cursor=" + p.NextCursor
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("%q lists %q, want %q", query, text, want)
		}
	}
	o.get(t, "/findings?status=gone").Refused(t, http.StatusUnprocessableEntity, "validation_error")
	o.get(t, "/findings?node_id=x").Refused(t, http.StatusUnprocessableEntity, "validation_error")
}

func TestRunsAreReadAndListed(t *testing.T) {
	o := newDesk(t)
	dc1, dc2 := o.site(t, "dc1", ago(0)), o.site(t, "dc2", ago(0))
	n := o.node(t, "c07u43", dc1, ago(0))
	names := map[id.ReconciliationRun]string{}
	add := func(name string, at id.Site, trigger reconciliation.Trigger) id.ReconciliationRun {
		run := id.New[id.ReconciliationRun]()
		names[run] = name
		o.exec(t, `INSERT INTO reconciliation_runs (id, site_id, trigger) VALUES ($1, $2, $3)`, run, at, trigger)
		return run
	}
	first := add("first", dc1, reconciliation.BySchedule)
	add("second", dc2, reconciliation.ByOperator)
	third := add("third", dc1, reconciliation.ByResolution)
	o.exec(t, `UPDATE reconciliation_runs SET node_id = $2, resolution = 'reimage', outcome = 'refused', error_code = 'node_busy', error_message = 'm', error_remedy = 'r',
		began_at = requested_at, ended_at = requested_at, report = ('{"requests": 3, "intended_actions": [{"node_id": "' || $3::text || '", "hostname": "c07u43", "finding": "released", "action": "quarantine", "done": false, "withheld": "dry run"}]}')::jsonb
		WHERE id = $1`, third, n, n.String())
	for query, want := range map[string]string{
		"": "third second first", "site_id=" + dc1.String(): "third first", "trigger=operator": "second",
		"trigger=suspicion": "",
	} {
		var got []string
		for cursor := ""; ; {
			var p page[reconciliation.RunView]
			o.get(t, "/runs?page_size=1&"+query+cursor).Into(t, http.StatusOK, &p)
			for _, v := range p.Items {
				got = append(got, names[v.RunID])
			}
			if p.NextCursor == "" {
				break
			}
			cursor = "&cursor=" + p.NextCursor
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("%q lists %q, want %q", query, text, want)
		}
	}
	fresh := o.get(t, "/runs/"+first.String())
	for _, want := range []string{`"intended_actions":[]`, `"left_to_jobs":[]`, `"jobs_reconciled":[]`} {
		if !bytes.Contains(fresh.Body, []byte(want)) {
			t.Errorf("no %s in %s", want, fresh.Body)
		}
	}
	var v reconciliation.RunView
	o.get(t, "/runs/"+third.String()).Into(t, http.StatusOK, &v)
	if v.SiteName != "dc1" || v.Hostname != "c07u43" || v.Outcome != reconciliation.Refused || v.Error == nil ||
		v.Error.Remedy != "r" || v.Report.Requests != 3 ||
		len(v.Report.Intended) != 1 || v.Report.Intended[0].Withheld != "dry run" || v.EndedAt == nil {
		t.Errorf("the run is %+v", v)
	}
	o.get(t, "/runs/"+id.NewString()).Refused(t, http.StatusNotFound, "not_found")
}

func TestReadingAndDecidingAreSeparate(t *testing.T) {
	o := newDesk(t)
	body := map[string]any{"reason": "r", "site_id": id.NewString()}
	for _, path := range []string{
		"/run", "/drift/" + id.NewString() + "/resolve", "/findings/" + id.NewString() + "/acknowledge",
		"/sites/" + id.NewString() + "/breaker",
	} {
		o.callAs(t, "auditor", http.MethodPost, path, "", body).Refused(t, http.StatusForbidden, "insufficient_permissions")
	}
	for _, path := range []string{"/status", "/drift", "/findings", "/runs"} {
		o.callAs(t, "guest", http.MethodGet, path, "", nil).Refused(t, http.StatusForbidden, "insufficient_permissions")
		if got := o.get(t, path); got.Status != http.StatusOK {
			t.Errorf("%s answers %d %s", path, got.Status, got.Body)
		}
	}
}
