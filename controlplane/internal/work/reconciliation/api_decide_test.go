package reconciliation_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/work/reconciliation"
)

func (o *desk) count(tb testing.TB, query string, args ...any) (n int) {
	tb.Helper()
	if err := o.owner.QueryRow(tb.Context(), query, args...).Scan(&n); err != nil {
		tb.Fatal(err)
	}
	return n
}

func (o *desk) audited(tb testing.TB, action string) int {
	tb.Helper()
	return o.count(tb, `SELECT count(*) FROM audit_logs WHERE action = $1`, action)
}

func TestARunIsAskedForOnce(t *testing.T) {
	o := newDesk(t)
	dc1 := o.site(t, "dc1", nil)
	body := map[string]any{"site_id": dc1, "dry_run": true, "full": true, "reason": "after the outage"}
	key := id.NewString()
	var first, again reconciliation.RunView
	o.callAs(t, "root", http.MethodPost, "/run", key, body).Into(t, http.StatusAccepted, &first)
	o.callAs(t, "root", http.MethodPost, "/run", key, body).Into(t, http.StatusAccepted, &again)
	if first.RunID != again.RunID || !first.DryRun || !first.Full || first.Trigger != reconciliation.ByOperator ||
		first.SiteName != "dc1" || first.Outcome != "" ||
		first.Reason != "after the outage" || first.RequestedBy != "user:root" || first.EndedAt != nil {
		t.Errorf("the run is %+v, then %+v", first, again)
	}
	if n := o.count(t, `SELECT count(*) FROM outbox_events WHERE destination = 'temporal'`); n != 1 {
		t.Errorf("%d workflows are started", n)
	}
	if n := o.audited(t, "reconciliation.run"); n != 1 {
		t.Errorf("audited %d times", n)
	}
	var read reconciliation.RunView
	o.get(t, "/runs/"+first.RunID.String()).Into(t, http.StatusOK, &read)
	if read.RunID != first.RunID {
		t.Errorf("read %+v", read)
	}
	o.post(t, "/run", map[string]any{"site_id": id.NewString()}).Refused(t, http.StatusNotFound, "not_found")
	o.post(t, "/run", map[string]any{}).Refused(t, http.StatusUnprocessableEntity, "validation_error")
	o.post(t, "/run", map[string]any{"site_id": dc1, "force": true}).Refused(t, http.StatusUnprocessableEntity,
		"validation_error")
	o.exec(t, `UPDATE maas_sites SET status = 'disabled' WHERE id = $1`, dc1)
	o.post(t, "/run", map[string]any{"site_id": dc1}).Refused(t, http.StatusConflict, "site_disabled")
}

func TestFindingsAreAcknowledged(t *testing.T) {
	o := newDesk(t)
	dc1 := o.site(t, "dc1", ago(0))
	setting := o.find(t, finding{site: dc1, kind: reconciliation.TypeUnusedPowerOverride, severity: reconciliation.Info})
	over := o.find(t, finding{site: dc1, kind: reconciliation.TypeUnmanagedMachine, status: reconciliation.Closed})
	var v reconciliation.FindingView
	path := "/findings/" + setting.String() + "/acknowledge"
	o.post(t, path, map[string]any{"reason": "it is for next week"}).Into(t, http.StatusOK, &v)
	if v.FindingID != setting || v.AcknowledgedAt == nil || !v.AcknowledgedAt.Equal(noon) ||
		v.AcknowledgedBy != "user:root" || v.Acknowledgement != "it is for next week" ||
		v.Status != reconciliation.Confirmed || v.NodeID != nil {
		t.Errorf("the finding is %+v", v)
	}
	if n := o.audited(t, "reconciliation.acknowledge"); n != 1 {
		t.Errorf("audited %d times", n)
	}
	o.post(t, path, map[string]any{}).Refused(t, http.StatusUnprocessableEntity, "validation_error")
	o.post(t, path, map[string]any{"reason": "  "}).Refused(t, http.StatusUnprocessableEntity, "reason_missing")
	o.post(t, "/findings/"+over.String()+"/acknowledge", map[string]any{"reason": "r"}).Refused(t, http.StatusConflict,
		"finding_closed")
	o.post(t, "/findings/"+id.NewString()+"/acknowledge", map[string]any{"reason": "r"}).Refused(t, http.StatusNotFound,
		"not_found")
}

func TestDriftIsResolved(t *testing.T) {
	o := newDesk(t)
	dc1 := o.site(t, "dc1", ago(0))
	n := o.node(t, "c07u43", dc1, ago(time.Minute))
	o.find(t, finding{site: dc1, node: n})
	path := "/drift/" + n.String() + "/resolve"
	resolve := func(r reconciliation.Resolution) (v reconciliation.RunView) {
		t.Helper()
		o.post(t, path, map[string]any{"resolution": r, "reason": "board was replaced"}).Into(t, http.StatusAccepted, &v)
		if v.Resolution != r || v.Trigger != reconciliation.ByResolution || v.NodeID == nil || *v.NodeID != n ||
			v.Hostname != "c07u43" || v.SiteID != dc1 {
			t.Errorf("%s answers %+v", r, v)
		}
		return v
	}
	known := resolve(reconciliation.Acknowledge)
	if known.Outcome != reconciliation.Informed || known.EndedAt == nil {
		t.Errorf("acknowledge has not ended: %+v", known)
	}
	var v reconciliation.DriftDetailView
	o.get(t, "/drift/"+n.String()).Into(t, http.StatusOK, &v)
	if !v.Drifted || len(v.Findings) != 1 || v.Findings[0].AcknowledgedBy != "user:root" || v.NodeStatus != "active" {
		t.Errorf("the node is %+v", v)
	}
	for _, r := range []reconciliation.Resolution{reconciliation.AdoptObserved, reconciliation.ReturnToService} {
		if run := resolve(r); run.Outcome != "" || run.EndedAt != nil { // a workflow looks first
			t.Errorf("%s has ended: %+v", r, run)
		}
	}
	if run := resolve(reconciliation.QuarantineNode); run.Outcome != reconciliation.Informed {
		t.Errorf("quarantine is %+v", run)
	}
	o.get(t, "/drift/"+n.String()).Into(t, http.StatusOK, &v)
	if v.NodeStatus != "quarantined" || v.Schedulable {
		t.Errorf("the node is %s, schedulable %v", v.NodeStatus, v.Schedulable)
	}
	if run := resolve(reconciliation.Reimage); len(run.Report.Left) != 1 ||
		!strings.HasPrefix(run.Report.Left[0].Job, "decommission ") {
		t.Errorf("reimage is %+v", run)
	}
	if got := o.audited(t, "reconciliation.resolve"); got != 5 {
		t.Errorf("audited %d times", got)
	}
}

func TestResolutionsThatAreRefused(t *testing.T) {
	o := newDesk(t)
	dc1 := o.site(t, "dc1", ago(0))
	n := o.node(t, "c07u43", dc1, ago(time.Minute))
	loose := o.node(t, "loose", dc1, nil)
	o.exec(t, `DELETE FROM node_maas_state WHERE node_id = $1`, loose)
	body := map[string]any{"resolution": "acknowledge", "reason": "r"}
	o.post(t, "/drift/"+id.NewString()+"/resolve", body).Refused(t, http.StatusNotFound, "node_not_found")
	o.post(t, "/drift/"+loose.String()+"/resolve", body).Refused(t, http.StatusConflict, "node_not_bound")
	path := "/drift/" + n.String() + "/resolve"
	o.post(t, path, map[string]any{"resolution": "forget", "reason": "r"}).Refused(t, http.StatusUnprocessableEntity,
		"validation_error")
	o.post(t, path, map[string]any{"resolution": "acknowledge"}).Refused(t, http.StatusUnprocessableEntity,
		"validation_error")
	o.post(t, path, map[string]any{"resolution": "acknowledge", "reason": ""}).Refused(t, http.StatusUnprocessableEntity,
		"validation_error")
	for resolution, plain := range map[string]string{
		"acknowledge": "gpuaas drift show c07u43", "quarantine": "gpuaas node quarantine c07u43",
		"reimage": "gpuaas node reimage c07u43",
	} { // nothing was found about the node
		o.post(t, path, map[string]any{"resolution": resolution, "reason": "r"}).Refused(t, http.StatusConflict,
			"no_open_finding", plain)
	}
	o.find(t, finding{site: dc1, node: n})
	o.reimageFails = true
	o.post(t, path, map[string]any{"resolution": "reimage", "reason": "r"}).Refused(t, http.StatusConflict, "node_busy")
	o.exec(t, `UPDATE nodes SET status = 'retired' WHERE id = $1`, n)
	if got := o.post(t, path, map[string]any{
		"resolution": "quarantine",
		"reason":     "r",
	}); got.Status != http.StatusConflict {
		t.Errorf("quarantine of a retired node: %d %s", got.Status, got.Body)
	}
	if got := o.count(t, `SELECT count(*) FROM reconciliation_runs`); got != 0 {
		t.Errorf("%d runs were written", got)
	}
}

func TestTheBreakerIsDecided(t *testing.T) {
	o := newDesk(t)
	dc1 := o.site(t, "dc1", ago(time.Minute))
	n := o.node(t, "c07u43", dc1, ago(time.Minute))
	o.find(t, finding{site: dc1, node: n})
	path := "/sites/" + dc1.String() + "/breaker"
	confirm, dismiss := map[string]any{"decision": "confirm", "reason": "rack 7 is down"},
		map[string]any{"decision": "dismiss", "reason": "MAAS was restored"}
	o.post(t, path, confirm).Refused(t, http.StatusConflict, "breaker_not_open")
	o.post(t, "/sites/"+id.NewString()+"/breaker", confirm).Refused(t, http.StatusNotFound, "not_found")
	o.exec(t, `UPDATE reconciliation_sites SET tripped_at = $2, tripped_nodes = ARRAY[$3]::uuid[] WHERE site_id = $1`, dc1,
		noon, n)
	o.post(t, path, map[string]any{"decision": "maybe", "reason": "r"}).Refused(t, http.StatusUnprocessableEntity,
		"validation_error")
	o.post(t, path, map[string]any{"decision": "confirm"}).Refused(t, http.StatusUnprocessableEntity, "validation_error")
	var v reconciliation.SiteOverview
	o.post(t, path, confirm).Into(t, http.StatusOK, &v)
	if v.State != reconciliation.SiteBreakerOpen || v.Breaker == nil || v.Breaker.ConfirmedAt == nil ||
		len(v.Breaker.Nodes) != 1 || v.Breaker.Nodes[0].NodeID != n {
		t.Errorf("after confirm the site is %+v", v)
	}
	v = reconciliation.SiteOverview{}
	o.post(t, path, dismiss).Into(t, http.StatusOK, &v)
	if v.State != reconciliation.SiteOK || v.Breaker != nil {
		t.Errorf("after dismiss the site is %+v", v)
	}
	if got := o.count(t,
		`SELECT count(*) FROM outbox_events WHERE event_type = 'reconciliation.breaker_closed'`); got != 1 {
		t.Errorf("others were told %d times", got)
	}
}

// A decision that names nodes is about these and no others: what came to the
// breaker, or left it, after the look is not decided with it.
func TestADecisionIsAboutTheNodesThatWereSeen(t *testing.T) {
	o := newDesk(t)
	dc1 := o.site(t, "dc1", ago(time.Minute))
	seen, came := o.node(t, "c07u43", dc1, ago(time.Minute)), o.node(t, "c07u44", dc1, ago(time.Minute))
	unknown := id.New[id.Node]()
	o.exec(t, `UPDATE reconciliation_sites SET tripped_at = $2, tripped_nodes = ARRAY[$3, $4]::uuid[] WHERE site_id = $1`,
		dc1, noon, seen, came)
	path := "/sites/" + dc1.String() + "/breaker"
	for _, decision := range []string{"confirm", "dismiss"} {
		for name, c := range map[string]struct {
			nodes []id.Node
			says  string
		}{
			"one came":           {[]id.Node{seen}, "1 came (c07u44)"},
			"one came, one went": {[]id.Node{seen, unknown}, "1 came (c07u44), 1 went (" + unknown.String() + ")"},
			"one went":           {[]id.Node{came, seen, unknown}, "1 went (" + unknown.String() + ")"},
			"none was seen":      {[]id.Node{}, "2 came (c07u43, c07u44)"},
		} {
			got := o.post(t, path, map[string]any{"decision": decision, "reason": "rack 7 is down", "node_ids": c.nodes})
			got.Refused(t, http.StatusConflict, "breaker_changed")
			if !strings.Contains(string(got.Body), c.says) ||
				!strings.Contains(string(got.Body), "gpuaas reconcile status --site dc1") {
				t.Errorf("%s, %s: the answer is %s", decision, name, got.Body)
			}
		}
	}
	if n := o.count(t,
		`SELECT count(*) FROM reconciliation_sites WHERE confirmed_at IS NOT NULL OR tripped_at IS NULL`); n != 0 {
		t.Error("what was refused was done")
	}
	for _, decision := range []string{"confirm", "dismiss"} { // in whatever order they are named
		o.post(t, path, map[string]any{
			"decision": decision, "reason": "rack 7 is down",
			"node_ids": []id.Node{came, seen, came},
		}).Into(t, http.StatusOK, &reconciliation.SiteOverview{})
	}
	o.post(t, path, map[string]any{"decision": "confirm", "reason": "r", "node_ids": []id.Node{seen}}).Refused(t,
		http.StatusConflict, "breaker_not_open")
	o.post(t, path, map[string]any{"decision": "confirm", "reason": "r", "node_ids": []string{"c07u43"}}).Refused(t,
		http.StatusUnprocessableEntity, "validation_error")
}
