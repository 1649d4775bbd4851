package decommission_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/httpapi/httpapitest"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/decommission"
	"gpuaas/controlplane/internal/work/job"
)

func TestADecommissionOverTheAPI(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	n := d.node(t, node.Active, true)
	var plan decommission.Plan
	d.call(t, http.MethodPost, "nodes/"+n.String()+"/decommission/plan",
		object{"mode": "reimage", "erase": "secure"}).Into(t, http.StatusOK, &plan)
	if len(plan.Blocks) > 0 || plan.Hash == "" || plan.Erase != "secure" || plan.StorageCleanup != "local" ||
		len(plan.Stages) == 0 || len(plan.Effects) == 0 {
		t.Fatalf("plan is %+v", plan)
	}
	body := object{"mode": "reimage", "erase": "secure", "reason": "tenant left", "plan_hash": plan.Hash}
	made := d.begin(t, n, "decommission", body)
	if !made.Created || made.Mode != decommission.Reimage || made.Erase != "secure" || made.NodeID != n ||
		made.Status != job.Pending || made.PlanHash != plan.Hash ||
		made.SiteID == nil || *made.SiteID != d.site.ID || made.NodeStatusBefore != node.Active ||
		made.RequestedBy != httpapitest.IDOf(httpapitest.Root) || made.StageNumber != 1 {
		t.Errorf("answer is %+v", made)
	}
	if again := d.begin(t, n, "decommission", body); again.Created || again.DecommissionID != made.DecommissionID {
		t.Errorf("asked again: %+v", again)
	}
	path := "decommissions/" + made.DecommissionID.String()
	d.park(t, made.DecommissionID, "drain_node")
	var v decommission.DetailView
	d.call(t, http.MethodGet, path, nil).Into(t, http.StatusOK, &v)
	if v.Failure == nil || v.Failure.Class != decommission.Class(bringup.NodeAgentUnreachable) ||
		v.RecommendedAction != job.RetryStage ||
		len(v.Events) != 2 || v.Explanation.Summary == "" ||
		v.Explanation.Override == nil || v.Explanation.Override.Stage != "drain_node" {
		t.Errorf("it is shown as %+v", v)
	}
	var e decommission.Explanation
	d.call(t, http.MethodGet, path+"/explain", nil).Into(t, http.StatusOK, &e)
	if e.Stage != "drain_node" || len(e.Actions) != 7 {
		t.Errorf("explained as %+v", e)
	}
	var events struct{ Items []decommission.EventView }
	d.call(t, http.MethodGet, path+"/events?page_size=1", nil).Into(t, http.StatusOK, &events)
	if len(events.Items) != 1 || events.Items[0].Stage != "drain_node" {
		t.Errorf("events are %+v", events)
	}
	for _, part := range []string{"", "/events", "/explain", "/evidence"} {
		d.call(t, http.MethodGet, "decommissions/"+id.NewString()+part, nil).Refused(t, http.StatusNotFound,
			"decommission_not_found")
	}
}

// What stages saw is read as it was kept.
func TestEvidenceOverTheAPI(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	made := d.request(t, d.node(t, node.Active, false), decommission.SoftReset)
	if after := d.run(t, made.ID); after.Status != job.Completed {
		t.Fatalf("it is %s at %s: %s", after.Status, after.Stage, after.ErrorMessage)
	}
	var out struct{ Items []decommission.EvidenceView }
	d.call(t, http.MethodGet, "decommissions/"+made.ID.String()+"/evidence", nil).Into(t, http.StatusOK, &out)
	var kinds []string
	for _, e := range out.Items {
		kinds = append(kinds, string(e.Kind))
		if e.Value == nil || e.RecordedAt.IsZero() {
			t.Errorf("%+v", e)
		}
	}
	for _, kind := range []string{"drain", "storage_cleanup", "gpu_scrub", "validate_clean"} {
		if !slices.Contains(kinds, kind) {
			t.Errorf("no %s among %v", kind, kinds)
		}
	}
}

// A plan that was read is carried out only as long as it holds.
func TestAPlanGoesStale(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	n := d.node(t, node.Active, true)
	var plan decommission.Plan
	d.call(t, http.MethodPost, "nodes/"+n.String()+"/decommission/plan", object{"mode": "soft_reset"}).Into(t,
		http.StatusOK, &plan)
	d.exec(t, `UPDATE nodes SET generation = generation + 1 WHERE id = $1`, n)
	body := object{"mode": "soft_reset", "reason": "r", "plan_hash": plan.Hash}
	d.call(t, http.MethodPost, "nodes/"+n.String()+"/decommission", body).Refused(t, http.StatusConflict, "plan_stale")
	d.call(t, http.MethodPost, "nodes/"+n.String()+"/decommission/plan", object{"mode": "soft_reset"}).Into(t,
		http.StatusOK, &plan)
	body["plan_hash"] = plan.Hash
	d.begin(t, n, "decommission", body)
}

// The steps of the life of a node can be asked for again and again: what is
// under way is told, what is parked goes on.
func TestStepsAreIdempotentAndResume(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for step, c := range map[string]struct {
		status        node.Status
		parked, onTo  string
		body          object
		continuesOnly bool
	}{
		"drain":      {node.Active, "drain_node", "disable_node", object{"reason": "r"}, false},
		"retire":     {node.Active, "validate_clean_node", "drain_node", object{"reason": "r"}, false},
		"reactivate": {node.Retired, "reactivate_node", "reactivate_node", object{"reason": "r"}, false},
		"remove": {
			node.Retired, "remove_gpuaas_node_record", "remove_gpuaas_node_record",
			object{"reason": "r"},
			false,
		},
		"storage-cleanup": {node.Active, "cleanup_storage", "", object{"scope": "local", "reason": "r"}, true},
	} {
		t.Run(step, func(t *testing.T) {
			n := d.node(t, c.status, false)
			one := d.begin(t, n, step, c.body)
			signals := d.count(t, `SELECT count(*) FROM outbox_events WHERE aggregate_id = $1`, one.WorkflowID)
			two := d.begin(t, n, step, c.body)
			if !one.Created || two.Created || one.DecommissionID != two.DecommissionID || two.Status != job.Pending {
				t.Errorf("one is %+v, two is %+v", one, two)
			}
			if after := d.count(t, `SELECT count(*) FROM outbox_events WHERE aggregate_id = $1`,
				one.WorkflowID); after <= signals {
				t.Errorf("its workflow was not told: %d, then %d messages", signals, after)
			}
			d.park(t, one.DecommissionID, c.parked)
			three := d.begin(t, n, step, c.body)
			switch {
			case c.continuesOnly && three.Status != job.FailedManualIntervention: // destructive ones are resumed on purpose
				t.Errorf("it went on by itself: %+v", three)
			case !c.continuesOnly && (three.Status != job.Running || three.CurrentStage != c.onTo || three.Created ||
				three.PendingAction != job.Resume):
				t.Errorf("it goes on as %+v", three)
			}
			if rows := d.count(t, `SELECT count(*) FROM node_decommissions WHERE node_id = $1`, n); rows != 1 {
				t.Errorf("%d operations", rows)
			}
		})
	}
}

func TestActionsOverTheAPI(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for word, c := range map[string]struct {
		action job.Trigger
		status job.Status
	}{
		"retry": {job.RetryStage, job.Running}, "resume": {job.Resume, job.Running}, "rerun": {job.Rerun, job.Running},
		"restart-clean": {job.RestartClean, job.Compensating}, "cancel": {job.Cancel, job.Compensating},
		"adopt": {job.AdoptObserved, job.Running}, "mark-manual-intervention": {job.MarkManual, job.FailedManualIntervention},
	} {
		t.Run(word, func(t *testing.T) {
			job := d.request(t, d.node(t, node.Active, true), decommission.FullDecommission).ID
			path := "decommissions/" + job.String() + "/" + word
			if word != "cancel" {
				d.call(t, http.MethodPost, path, object{"reason": "r"}).Refused(t, http.StatusConflict, "action_not_allowed",
					"possible now: cancel")
			}
			if word != "mark-manual-intervention" {
				d.park(t, job, "drain_node")
			} else {
				d.exec(t, `UPDATE node_decommissions SET status = 'running', started_at = now() WHERE id = $1`, job)
			}
			d.call(t, http.MethodPost, path, object{}).Refused(t, http.StatusUnprocessableEntity, "validation_error")
			var v decommission.View
			d.call(t, http.MethodPost, path, object{"reason": "cable replaced"}).Into(t, http.StatusAccepted, &v)
			if v.Status != c.status || v.PendingAction != c.action {
				t.Errorf("it is %s with %s pending", v.Status, v.PendingAction)
			}
			if n := d.count(t, `SELECT count(*) FROM audit_logs WHERE target_id = $1 AND reason = 'cable replaced' AND action = $2`, job.String(), "decommission."+string(c.action)); n != 1 {
				t.Errorf("%d audit entries", n)
			}
		})
	}
}

func TestOverrideOverTheAPI(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	job := d.request(t, d.node(t, node.Active, true), decommission.FullDecommission).ID
	path := "decommissions/" + job.String() + "/override"
	ask := func(stage string) object {
		return object{"stage": stage, "reason": "dead", "residual_risk": "data on disks"}
	}
	d.call(t, http.MethodPost, path, ask("disable_node")).Refused(t, http.StatusConflict, "action_not_allowed")
	d.park(t, job, "drain_node")
	d.call(t, http.MethodPost, path, ask("release_maas_node")).Refused(t, http.StatusConflict, "override_of_other_stage",
		"drain_node")
	d.call(t, http.MethodPost, path, object{"stage": "drain_node", "reason": "r"}).Refused(t,
		http.StatusUnprocessableEntity, "validation_error", "residual_risk")
	d.call(t, http.MethodPost, path, object{"stage": "drain_node", "reason": "r", "residual_risk": " "}).Refused(t,
		http.StatusUnprocessableEntity, "residual_risk_missing")
	d.call(t, http.MethodPost, path, ask("drain_node")).Into(t, http.StatusAccepted, &decommission.View{})
	var v decommission.DetailView
	d.call(t, http.MethodGet, "decommissions/"+job.String(), nil).Into(t, http.StatusOK, &v)
	if v.Status != "running" || len(v.Overrides) != 1 || v.Overrides[0].Stage != "drain_node" ||
		v.Overrides[0].ResidualRisk != "data on disks" ||
		!strings.Contains(v.Overrides[0].Actor, httpapitest.IDOf(httpapitest.Root)) {
		t.Errorf("it is %s with %+v", v.Status, v.Overrides)
	}
	d.park(t, job, "force_release_allocations")
	d.call(t, http.MethodPost, path, ask("force_release_allocations")).Refused(t, http.StatusConflict,
		"stage_not_overridable")
	back := d.request(t, d.node(t, node.Active, true), decommission.Reimage).ID
	d.park(t, back, "release_maas_node")
	d.call(t, http.MethodPost, "decommissions/"+back.String()+"/override", ask("release_maas_node")).Refused(t,
		http.StatusConflict, "stage_not_overridable")
	var e decommission.Explanation
	d.call(t, http.MethodGet, "decommissions/"+back.String()+"/explain", nil).Into(t, http.StatusOK, &e)
	if e.Override != nil {
		t.Errorf("an override is offered that is refused: %+v", e.Override)
	}
}

func TestListingsAreNarrowed(t *testing.T) {
	d := newDesk(t)
	a, b := d.node(t, node.Active, true), d.node(t, node.Retired, false)
	one, two := d.request(t, a, decommission.SoftReset), d.request(t, b, decommission.Remove)
	d.park(t, two.ID, "remove_gpuaas_node_record")
	for query, want := range map[string][]id.Decommission{
		"":                                 {two.ID, one.ID},
		"?node_id=" + a.String():           {one.ID},
		"?site_id=" + d.site.ID.String():   {one.ID},
		"?mode=remove":                     {two.ID},
		"?status=failed":                   {two.ID},
		"?status=pending,running":          {one.ID},
		"?hostname=" + one.Hostname:        {one.ID},
		"?batch_id=" + id.NewString():      {},
		"?status=failed&mode=soft_reset":   {},
		"?page_size=1":                     {two.ID},
		"?status=pending&status=failed":    {two.ID, one.ID},
		"?site_id=" + id.NewString():       {},
		"?hostname=" + two.Hostname + "-x": {},
	} {
		var out struct{ Items []decommission.View }
		d.call(t, http.MethodGet, "decommissions"+query, nil).Into(t, http.StatusOK, &out)
		got := []id.Decommission{}
		for _, v := range out.Items {
			got = append(got, v.DecommissionID)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
	}
	d.call(t, http.MethodGet, "decommissions?status=lost", nil).Refused(t, http.StatusUnprocessableEntity,
		"validation_error", "query.status", "failed for both")
	d.call(t, http.MethodGet, "decommissions?mode=explode", nil).Refused(t, http.StatusUnprocessableEntity,
		"validation_error", "query.mode")
}

func TestBatchesOverTheAPI(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.node(t, node.Active, true)
	d.node(t, node.Active, true)
	three := d.node(t, node.Retired, true)
	ask := func(selector object, more object) object {
		body := object{"mode": "soft_reset", "reason": "end of the project", "selector": selector}
		for k, v := range more {
			body[k] = v
		}
		return body
	}
	everything := object{"site_id": d.site.ID}
	d.call(t, http.MethodPost, "decommissions/batch", ask(object{}, nil)).Refused(t, http.StatusUnprocessableEntity,
		"validation_error", "body.selector")
	d.call(t, http.MethodPost, "decommissions/batch", ask(everything, nil)).Refused(t, http.StatusConflict,
		"batch_not_eligible", "is retired", "skip_ineligible")
	d.call(t, http.MethodPost, "decommissions/batch", ask(object{"statuses": []string{"lost"}}, nil)).Refused(t,
		http.StatusUnprocessableEntity, "validation_error")
	d.call(t, http.MethodPost, "decommissions/batch", ask(object{"region_code": "none"}, nil)).Refused(t,
		http.StatusConflict, "batch_empty")
	d.call(t, http.MethodPost, "decommissions/batch", ask(object{"node_ids": []string{id.NewString()}}, nil)).Refused(t,
		http.StatusNotFound, "node_not_found")
	d.call(t, http.MethodPost, "decommissions/batch",
		ask(everything, object{"expected_node_ids": []string{id.NewString()}})).Refused(t, http.StatusConflict,
		"selection_changed", "1 went")
	d.call(t, http.MethodPost, "decommissions/batch", ask(everything, object{"max_parallel": 1001})).Refused(t,
		http.StatusUnprocessableEntity, "validation_error", "max_parallel")
	var made decommission.NewBatchView
	d.call(t, http.MethodPost, "decommissions/batch",
		ask(everything, object{"skip_ineligible": true, "max_parallel": 1})).Into(t, http.StatusAccepted, &made)
	if made.Batch.Total != 2 || made.Batch.State != job.BatchRunning || len(made.LeftOut) != 1 ||
		made.LeftOut[0].NodeID != three || made.LeftOut[0].Code != "node_state_conflict" {
		t.Fatalf("made %+v", made)
	}
	path := "decommission-batches/" + made.Batch.BatchID.String()
	first := id.Decommission{}
	if err := d.db.QueryRow(d.ctx, `SELECT id FROM node_decommissions WHERE batch_id = $1 AND admitted_at IS NOT NULL`,
		made.Batch.BatchID).Scan(&first); err != nil {
		t.Fatal(err)
	}
	var halted decommission.BatchView
	d.call(t, http.MethodPost, path+"/pause", object{"reason": "lunch"}).Into(t, http.StatusAccepted, &halted)
	if halted.State != job.BatchPaused || halted.PausedAt == nil || halted.PausedBy == "" ||
		halted.PauseReason != "lunch" {
		t.Errorf("paused as %+v", halted)
	}
	halted = decommission.BatchView{}
	d.call(t, http.MethodPost, path+"/resume", object{"reason": "go on"}).Into(t, http.StatusAccepted, &halted)
	if halted.State != job.BatchRunning || halted.PausedBy != "" || halted.PauseReason != "" {
		t.Errorf("resumed as %+v", halted)
	}
	d.park(t, first, "drain_node")
	if err := job.Tend(d.ctx, d.db, time.Now()); err != nil {
		t.Fatal(err)
	}
	d.call(t, http.MethodGet, path, nil).Into(t, http.StatusOK, &halted)
	if halted.State != job.BatchHalted || halted.Failed != 1 || halted.Counts.Pending != 1 ||
		halted.Selector.SiteID == nil {
		t.Errorf("it is %+v", halted)
	}
	waiting := id.Decommission{}
	if err := d.db.QueryRow(d.ctx, `SELECT id FROM node_decommissions WHERE batch_id = $1 AND admitted_at IS NULL`,
		made.Batch.BatchID).Scan(&waiting); err != nil {
		t.Fatal(err)
	}
	var e decommission.Explanation
	d.call(t, http.MethodGet, "decommissions/"+waiting.String()+"/explain", nil).Into(t, http.StatusOK, &e)
	if e.Remedy == "" || e.Status != job.Pending {
		t.Errorf("one that waits is explained as %+v", e)
	}
	var all struct{ Items []decommission.BatchView }
	d.call(t, http.MethodGet, "decommission-batches", nil).Into(t, http.StatusOK, &all)
	if len(all.Items) != 1 || all.Items[0].BatchID != made.Batch.BatchID {
		t.Errorf("batches are %+v", all)
	}
	d.call(t, http.MethodPost, path+"/resume", object{}).Refused(t, http.StatusUnprocessableEntity, "validation_error")
	d.call(t, http.MethodPost, path+"/resume", object{"reason": "look again"}).Into(t, http.StatusAccepted, &halted)
	d.call(t, http.MethodPost, path+"/cancel", object{"reason": "wrong nodes"}).Into(t, http.StatusAccepted, &halted)
	if halted.State != job.BatchCancelled || halted.CancelledAt == nil || halted.Counts.Cancelled != 1 ||
		halted.Counts.Compensating != 1 {
		t.Errorf("cancelled as %+v", halted)
	}
	if n := d.count(t, `SELECT count(*) FROM audit_logs WHERE target_kind = 'decommission_batch' AND reason <> ''`); n != 5 {
		t.Errorf("%d audit entries of the batch", n)
	}
	for _, part := range []string{"", "/pause", "/resume", "/cancel"} {
		method, body := http.MethodPost, any(object{"reason": "r"})
		if part == "" {
			method, body = http.MethodGet, nil
		}
		d.call(t, method, "decommission-batches/"+id.NewString()+part, body).Refused(t, http.StatusNotFound,
			"decommission_batch_not_found")
	}
}

// Auditors read everything and change nothing; others do neither.
func TestWhoMayDecommission(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	n := d.node(t, node.Active, true)
	job := "decommissions/" + d.request(t, n, decommission.SoftReset).ID.String()
	for _, read := range []string{
		"decommissions", job, job + "/explain", job + "/events", job + "/evidence",
		"decommission-batches", "decommission-stages",
	} {
		if a := d.callAs(t, "auditor", http.MethodGet, read, "", nil); a.Status != http.StatusOK {
			t.Errorf("an auditor reads %s: %d %s", read, a.Status, a.Body)
		}
		d.callAs(t, "guest", http.MethodGet, read, "", nil).Refused(t, http.StatusForbidden, "insufficient_permissions")
	}
	of := "nodes/" + n.String() + "/"
	for _, change := range []string{
		of + "decommission", of + "storage-cleanup", of + "drain", of + "retire",
		of + "reactivate", of + "remove", "decommissions/batch", job + "/cancel", job + "/override",
	} {
		d.callAs(t, "auditor", http.MethodPost, change, id.NewString(), object{"reason": "r"}).Refused(t,
			http.StatusForbidden, "insufficient_permissions")
	}
}

func TestModesAreListed(t *testing.T) {
	var all struct{ Items []decommission.ModeView }
	newDesk(t).call(t, http.MethodGet, "decommission-stages", nil).Into(t, http.StatusOK, &all)
	if len(all.Items) != len(decommission.Modes()) {
		t.Fatalf("modes are %+v", all)
	}
	for i, m := range all.Items {
		if m.Mode != decommission.Modes()[i] || m.Ends == "" || m.Usually == "" || len(m.From) == 0 {
			t.Errorf("%+v", m)
		}
		for at, s := range m.Stages {
			if s.Number != at+1 || len(s.Fails) == 0 || s.Fails[0].RecommendedAction == "" || s.Fails[0].Status == "" ||
				s.Expects == "" {
				t.Errorf("%s: %+v", m.Mode, s)
			}
			if s.Name == "validate_clean_node" && s.Overridable {
				t.Errorf("%s goes on without a validation", m.Mode)
			}
		}
	}
}

func TestFeedTellsOfWhatIsFollowed(t *testing.T) {
	d := newDesk(t)
	batch, job, of := id.NewString(), id.NewString(), id.NewString()
	about := func(batch, job, of string) *eventwire.Envelope {
		return &eventwire.Envelope{
			EventType: eventwire.NodeDecommissionStage,
			Payload:   []byte(fmt.Sprintf(`{"batch_id":%q,"decommission_id":%q,"node_id":%q}`, batch, job, of)),
		}
	}
	d.feed.items = []outbox.FeedItem{
		{Position: 1, Mark: &outbox.Mark{Position: 1}},
		{Position: 2, Event: about(batch, job, of)},
		{Position: 3, Event: about(batch, id.NewString(), id.NewString())},
		{Position: 4, Event: about("", job, of)},
		{Position: 5, Gap: &outbox.Gap{RequestedAfter: 1, ContinuesFrom: 6}},
	}
	for query, want := range map[string]string{
		"":                            "1 2 3 4 5",
		"?batch_id=" + batch:          "1 2 3 5",
		"?decommission_id=" + job:     "1 2 4 5",
		"?node_id=" + of:              "1 2 4 5",
		"?batch_id=" + id.NewString(): "1 5",
	} {
		if a := d.call(t, http.MethodGet, "decommissions/feed"+query, nil); told(a) != want || a.Status != http.StatusOK {
			t.Errorf("%s tells %q, want %q: %s", query, told(a), want, a.Body)
		}
	}
	if d.feed.asked.Type != "node.decommission." || d.feed.asked.Resume {
		t.Errorf("asked for %+v", d.feed.asked)
	}
}
