package node_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/httpapi/httpapitest"
	"gpuaas/controlplane/internal/fleet/node"
)

func (w *world) post(tb testing.TB, body object) (v node.NewView, path string) {
	tb.Helper()
	a := w.call(tb, http.MethodPost, "", "", body)
	if a.Status != http.StatusCreated {
		tb.Fatalf("create answers %d %s", a.Status, a.Body)
	}
	a.Decode(tb, &v)
	return v, "/" + v.Node.NodeID.String()
}

func TestNodeOverTheAPI(t *testing.T) {
	w := newWorld(t)
	v, path := w.post(t, object{"host": "C07u31.example", "sku": someSKU, "region_code": "eu-1", "ssh_username": "admin"})
	n := v.Node
	if n.Status != node.BootstrapIssued || n.Hostname != "c07u31.example" || n.Host != "C07u31.example" ||
		n.GPUsTotal != 8 || n.Schedulable ||
		n.Agent.Drift != node.UnknownDrift || n.LastContactAt != nil || n.Version != 1 {
		t.Errorf("a fresh node is %+v", n)
	}
	token, isCommand := strings.CutPrefix(v.Bootstrap.Command, "bootstrap with ")
	if life := time.Until(v.Bootstrap.ExpiresAt); !isCommand || v.Bootstrap.UserData != "" ||
		v.Bootstrap.CAFingerprint != "ab12" || life > 15*time.Minute || life < 14*time.Minute {
		t.Errorf("the bootstrap is %+v", v.Bootstrap)
	}
	grant, err := w.service.TokenGrant(t.Context(), redact.New(token))
	if err != nil || grant.Node != n.NodeID || grant.Purpose != node.Bootstrap {
		t.Errorf("%+v %v", grant, err)
	}
	w.call(t, http.MethodPost, "", "", object{"hostname": "c07u31.example", "sku": someSKU, "region_code": "eu-1"}).
		Wants(t, http.StatusConflict, "node_hostname_taken")
	w.post(t, object{"hostname": "c07u31.example", "sku": someSKU, "region_code": "eu-2"})

	a := w.call(t, http.MethodPatch, path, `"1"`,
		object{"host": "10.0.0.7", "port": 2222, "agent_channel": "pinned", "desired_agent_version": "1.2.3"})
	a.Decode(t, &n)
	if a.Status != http.StatusOK || a.Header.Get("ETag") != `"2"` || n.Host != "10.0.0.7" || n.Port != 2222 ||
		n.Agent.DesiredVersion != "1.2.3" || n.Agent.Channel != node.Pinned {
		t.Errorf("answer is %d %s", a.Status, a.Body)
	}
	w.call(t, http.MethodPatch, path, `"1"`, object{"port": 22}).Wants(t, http.StatusPreconditionFailed, "version_stale")
	w.call(t, http.MethodPatch, path, "", object{"port": 22}).Wants(t, http.StatusPreconditionRequired,
		"precondition_required")
	w.call(t, http.MethodPatch, path, `"2"`, object{"status": "active"}).Wants(t, http.StatusUnprocessableEntity,
		"validation_error")
	w.call(t, http.MethodPatch, path, `"2"`, object{"schedulable": true}).Wants(t, http.StatusConflict, "node_not_active")

	var detail node.DetailView
	w.callAs(t, "auditor", http.MethodGet, path, "", nil).Decode(t, &detail)
	if len(detail.History) != 2 || detail.History[0].Kind != node.KindUpdated ||
		detail.History[1].Kind != node.KindCreated ||
		detail.History[1].ActorID != "user:root" || detail.Inspection != nil {
		t.Errorf("detail is %+v", detail)
	}
	w.callAs(t, "auditor", http.MethodPatch, path, `"2"`, object{"port": 22}).Wants(t, http.StatusForbidden,
		"insufficient_permissions")
	w.callAs(t, "guest", http.MethodGet, path, "", nil).Wants(t, http.StatusForbidden, "insufficient_permissions")
	w.call(t, http.MethodGet, "/"+id.NewString(), "", nil).Wants(t, http.StatusNotFound, "node_not_found")
	w.call(t, http.MethodGet, "/"+id.NewString()+"/history", "", nil).Wants(t, http.StatusNotFound, "node_not_found")
}

func TestRejectedNodesNameTheirFields(t *testing.T) {
	w := newWorld(t)
	for field, value := range map[string]any{
		"hostname": "No Name", "host": "a b", "port": 70000, "ssh_username": "Root!", "sku": "h100", "gpus_total": 65,
		"region_code": "EU 1", "onboarding_mode": "maas", "bootstrap_mode": "fax",
	} {
		b := object{"hostname": "c1", "sku": someSKU, "region_code": "eu-1"}
		b[field] = value
		w.call(t, http.MethodPost, "", "", b).Wants(t, http.StatusUnprocessableEntity, "validation_error", "body."+field)
	}
	w.call(t, http.MethodPost, "", "", object{"host": "10.0.0.1", "sku": someSKU, "region_code": "eu-1"}).
		Wants(t, http.StatusUnprocessableEntity, "validation_error", "body.hostname")
	w.exec(t, `UPDATE skus SET status = 'disabled' WHERE id = $1`, someSKU)
	w.call(t, http.MethodPost, "", "", object{"hostname": "c1", "sku": someSKU, "region_code": "eu-1"}).Wants(t,
		http.StatusConflict, "sku_disabled")
	if n := w.count(t, `SELECT count(*) FROM nodes`); n != 0 {
		t.Errorf("%d nodes were written", n)
	}
}

func TestHoldsOverTheAPI(t *testing.T) {
	w := newWorld(t)
	a := w.active(t, "a")
	path := "/" + a.node.String()
	patch := func(body object) httpapitest.Answer {
		return w.call(t, http.MethodPatch, path, `"`+itoa(w.read(t, a.node).Version)+`"`, body)
	}
	patch(object{"schedulable": false}).Wants(t, http.StatusUnprocessableEntity, "validation_error", "body.hold_reason")
	patch(object{"schedulable": true, "hold_reason": "x"}).Wants(t, http.StatusUnprocessableEntity, "validation_error",
		"body.schedulable")
	for _, c := range []struct {
		body        object
		schedulable bool
		reason      string
	}{
		{object{"schedulable": false, "hold_reason": "fan"}, false, "fan"},
		{object{"hold_reason": "two fans"}, false, "two fans"},
		{object{"port": 23}, false, "two fans"},
		{object{"schedulable": true}, true, ""},
		{object{"hold_reason": "again"}, false, "again"},
		{object{"hold_reason": ""}, true, ""},
	} {
		var v node.View
		patch(c.body).Decode(t, &v)
		if v.Schedulable != c.schedulable || v.HoldReason != c.reason {
			t.Errorf("%v: schedulable %v, held by %q", c.body, v.Schedulable, v.HoldReason)
		}
	}
}

func TestNodesAreListedByFilterAndPage(t *testing.T) {
	w := newWorld(t)
	w.fill(t, 1200)
	gone := w.active(t, "gone")
	w.drive(t, gone.node, node.Drain, node.Drained, node.Remove, node.Uninstalled)
	w.exec(t, `UPDATE nodes SET hold_reason = 'x', schedulable = false WHERE hostname IN ('n1', 'n2')`)
	w.exec(t, `UPDATE nodes SET reported_agent_version = 'dev' WHERE hostname IN ('n1199', 'n1200', 'n7')`)
	list := func(query string) (names []string, next string) {
		t.Helper()
		var page struct {
			Items      []node.View
			NextCursor string `json:"next_cursor"`
		}
		a := w.call(t, http.MethodGet, "?"+query, "", nil)
		if a.Status != http.StatusOK {
			t.Fatalf("%s answers %d %s", query, a.Status, a.Body)
		}
		a.Decode(t, &page)
		for _, v := range page.Items {
			names = append(names, v.Hostname)
		}
		return names, page.NextCursor
	}
	for query, want := range map[string]int{
		"page_size=1000": 1000, "": 50, "status=deleted": 1, "schedulable=false": 2, "hostname=n119&page_size=200": 11,
		"region_code=eu-1&page_size=1000": 300,
		"onboarding_mode=maas":            0, "sku=mi300x.192g.8gpu": 0, "drift_state=version_drift": 3,
		"drift_state=version_drift&hostname=n1":           2,
		"status=active&sku=" + someSKU + "&page_size=100": 100,
	} {
		if names, _ := list(query); len(names) != want {
			t.Errorf("%s lists %d nodes, want %d", query, len(names), want)
		}
	}
	w.call(t, http.MethodGet, "?page_size=1001", "", nil).Wants(t, http.StatusUnprocessableEntity, "validation_error")
	w.call(t, http.MethodGet, "?status=broken", "", nil).Wants(t, http.StatusUnprocessableEntity, "validation_error")
	for filter, want := range map[string]int{"": 1200, "drift_state=in_sync&": 1197} {
		seen := map[string]bool{}
		for cursor, pages := "", 0; pages == 0 || cursor != ""; pages++ {
			var names []string
			names, cursor = list(filter + "page_size=500&cursor=" + cursor)
			for _, n := range names {
				seen[n] = true
			}
		}
		if len(seen) != want {
			t.Errorf("%s: pages hold %d nodes, want %d", filter, len(seen), want)
		}
	}
}

func TestBootstrapsOverTheAPI(t *testing.T) {
	w := newWorld(t)
	v, path := w.post(t, object{"hostname": "c1", "sku": someSKU, "region_code": "eu-1", "bootstrap_mode": "cloud_init"})
	first, rendered := strings.CutPrefix(v.Bootstrap.UserData, "#cloud-config\n")
	if !rendered || v.Bootstrap.Command != "" {
		t.Errorf("the bootstrap is %+v", v.Bootstrap)
	}
	var again node.BootstrapView
	w.call(t, http.MethodPost, path+"/bootstrap", "", object{}).Decode(t, &again)
	second := strings.TrimPrefix(again.Command, "bootstrap with ")
	_, err := w.service.TokenGrant(t.Context(), redact.New(first))
	wantCode(t, err, fault.Unauthenticated, agentwire.CodeTokenInvalid)
	if _, err := w.service.TokenGrant(t.Context(), redact.New(second)); err != nil {
		t.Error(err)
	}
	a := w.active(t, "c2")
	path = "/" + a.node.String()
	w.call(t, http.MethodPost, path+"/bootstrap", "", object{}).Wants(t, http.StatusConflict, "node_state_conflict")
	w.call(t, http.MethodPost, path+"/bootstrap", "", object{"purpose": "recovery", "mode": "cloud_init"}).Decode(t,
		&again)
	if !strings.HasPrefix(again.UserData, "#cloud-config") {
		t.Errorf("the bootstrap is %+v", again)
	}
	w.callAs(t, "auditor", http.MethodPost, path+"/bootstrap", "", object{}).Wants(t, http.StatusForbidden,
		"insufficient_permissions")

	if got := w.call(t, http.MethodPost, path+"/revoke-identity", "",
		object{"reason": "stolen"}); got.Status != http.StatusNoContent {
		t.Errorf("answer is %d %s", got.Status, got.Body)
	}
	wantCode(t, a.poll(t, a.Session), fault.Unauthenticated, agentwire.CodeCertificateRevoked)
	w.call(t, http.MethodPost, path+"/revoke-identity", "", object{}).Wants(t, http.StatusUnprocessableEntity,
		"validation_error")
	life, err := w.service.AgentOf(t.Context(), a.node)
	if err != nil {
		t.Fatal(err)
	}
	if life.Drift != node.CertificateRepairOnly || life.ReportedVersion != "1.0.0" ||
		life.LastDeliveryResult != "revoked" || life.CertificateNotAfter != nil {
		t.Errorf("the agent is %+v", life)
	}
}

// If the bootstrap cannot be rendered, no node is created.
func TestNothingIsMadeWithoutItsBootstrap(t *testing.T) {
	w := newWorld(t)
	w.service = node.New(node.Config{DB: w.db, PKI: w.pki, Bootstrap: brokenRenderer{}})
	w.reopen()
	w.call(t, http.MethodPost, "", "", object{"hostname": "c1", "sku": someSKU, "region_code": "eu-1"}).
		Wants(t, http.StatusServiceUnavailable, "node_listener_unavailable")
	if n := w.count(t, `SELECT count(*) FROM nodes`); n != 0 {
		t.Errorf("%d nodes were made", n)
	}
}

type brokenRenderer struct{ renderer }

func (brokenRenderer) Command(redact.Secret) (redact.Secret, error) {
	return redact.Secret{}, fault.Wrap(errors.New("boom"), fault.Unavailable, "node_listener_unavailable",
		"no certificate yet")
}

func TestHistoryAnswersHowANodeWas(t *testing.T) {
	w := newWorld(t)
	a := w.active(t, "a")
	path := "/" + a.node.String()
	report := agentwire.Report{
		Build:        release,
		Capabilities: agentwire.Capabilities{Facts: map[string]string{"gpu.vendor": "amd"}, CPUs: 64},
	}
	if err := w.service.Report(t.Context(), a.node, report); err != nil {
		t.Fatal(err)
	}
	a.certify(t, true)
	w.drive(t, a.node, node.Quarantine, node.Drain)
	// Entry i happened i hours after the first.
	w.exec(t,
		`UPDATE node_events SET occurred_at = timestamptz '2026-01-01T00:00:00Z' + make_interval(hours => (seq - (SELECT min(seq) FROM node_events))::int)`)

	var all node.HistoryBody
	w.call(t, http.MethodGet, path+"/history", "", nil).Decode(t, &all)
	kinds := []string{}
	for _, e := range all.Items {
		kinds = append(kinds, string(e.Kind)+" "+e.Event)
	}
	want := "state_changed drain,state_changed quarantine,certificate_renewed ,agent_reported ,state_changed " +
		"enrolled,enrolled ,state_changed start_enrolment,created "
	if got := strings.Join(kinds, ","); got != want {
		t.Fatalf("history is %s\nwant %s", got, want)
	}
	if all.AsOf != nil {
		t.Error("a snapshot that nobody asked for")
	}
	for _, c := range []struct {
		at      string
		status  node.Status
		vendor  string
		entries int
	}{
		{"2026-01-01T00:30:00Z", node.BootstrapIssued, "", 1},
		{"2026-01-01T02:30:00Z", node.Enrolling, "none", 3},
		{"2026-01-01T03:30:00Z", node.Active, "none", 4},
		{"2026-01-01T04:30:00Z", node.Active, "amd", 5},
		{"2026-01-01T05:30:00Z", node.Active, "amd", 6},
		{"2026-01-01T06:00:00Z", node.Quarantined, "amd", 7},
		{"2026-02-01T00:00:00+02:00", node.Draining, "amd", 8},
	} {
		var then node.HistoryBody
		w.call(t, http.MethodGet, path+"/history?at="+url.QueryEscape(c.at), "", nil).Decode(t, &then)
		if then.AsOf == nil || then.AsOf.Status != c.status || len(then.Items) != c.entries || then.AsOf.Hostname != "a" ||
			c.vendor != "" && !strings.Contains(string(then.AsOf.Capabilities.RawMessage), c.vendor) {
			t.Errorf("at %s: %d entries, %+v", c.at, len(then.Items), then.AsOf)
		}
	}
	w.call(t, http.MethodGet, path+"/history?at=2025-12-31T23:59:59Z", "", nil).Wants(t, http.StatusNotFound,
		"node_not_yet")
	w.call(t, http.MethodGet, path+"/history?at=yesterday", "", nil).Wants(t, http.StatusUnprocessableEntity,
		"validation_error")

	var page node.HistoryBody
	w.call(t, http.MethodGet, path+"/history?page_size=3", "", nil).Decode(t, &page)
	w.call(t, http.MethodGet, path+"/history?page_size=3&cursor="+page.NextCursor, "", nil).Decode(t, &page)
	if len(page.Items) != 3 || page.Items[0].Kind != node.KindAgentReported {
		t.Errorf("the second page is %+v", page.Items)
	}
	then, err := w.service.NodeAt(t.Context(), a.node, time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC))
	if err != nil || !strings.Contains(string(then.Inspection), `64`) {
		t.Errorf("%s %v", then.Inspection, err)
	}
}

// The product cannot rewrite history.
func TestHistoryIsAppendOnly(t *testing.T) {
	w := newWorld(t)
	w.make(t, "a")
	for _, change := range []string{
		`UPDATE node_events SET cause = 'x'`, `DELETE FROM node_events`, `DELETE FROM nodes`,
		`DELETE FROM node_tokens`,
	} {
		if _, err := w.db.Exec(context.Background(), change); err == nil {
			t.Errorf("the product may %s", change)
		}
	}
}
