package onboarding_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/httpapi/httpapitest"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/job"
	"gpuaas/controlplane/internal/work/onboarding"
)

func TestOneMachineOverTheAPI(t *testing.T) {
	d := newDesk(t)
	made := d.requested(t, "C07U43", "10.176.16.128")
	if made.Status != job.Pending || made.WorkflowID != "onboarding-"+made.OnboardingID.String() || made.NodeID.IsZero() {
		t.Errorf("answer is %+v", made)
	}
	var v onboarding.DetailView
	d.call(t, http.MethodGet, "onboardings/"+made.OnboardingID.String(), nil).Decode(t, &v)
	if v.Hostname != "c07u43" || v.SiteID != d.site || v.ProfileID != d.profile || v.SKUID != deskSKU ||
		v.InitializeDisks || v.BatchID != nil ||
		v.CurrentStage != "load_site_config" || v.StageNumber != 1 || v.StageTotal != len(onboarding.Stages()) ||
		v.RequestedBy != httpapitest.IDOf(httpapitest.Root) {
		t.Errorf("it is shown as %+v", v)
	}
	if v.Explanation.Status != job.Pending || v.Explanation.Summary == "" || v.Failure != nil ||
		v.RecommendedAction != "" ||
		len(v.LegalActions) != 1 || v.LegalActions[0] != job.Cancel {
		t.Errorf("it is explained as %+v", v)
	}
	d.call(t, http.MethodGet, "onboardings/"+id.NewString(), nil).Wants(t, http.StatusNotFound, "onboarding_not_found")
	d.call(t, http.MethodGet, "onboardings/"+id.NewString()+"/events", nil).Wants(t, http.StatusNotFound,
		"onboarding_not_found")
	d.call(t, http.MethodGet, "onboardings/"+id.NewString()+"/explain", nil).Wants(t, http.StatusNotFound,
		"onboarding_not_found")
}

func TestAnIdempotentRequestStartsOnce(t *testing.T) {
	d := newDesk(t)
	key := id.NewString()
	one := d.callAs(t, "root", http.MethodPost, "onboardings", key, d.one(nil))
	two := d.callAs(t, "root", http.MethodPost, "onboardings", key, d.one(nil))
	if one.Status != http.StatusAccepted || two.Status != http.StatusAccepted || string(one.Body) != string(two.Body) {
		t.Errorf("%d %s, then %d %s", one.Status, one.Body, two.Status, two.Body)
	}
	d.callAs(t, "root", http.MethodPost, "onboardings", key, d.one(object{"hostname": "other"})).Wants(t,
		http.StatusConflict, "idempotency_key_reused")
	if n := d.count(t, `SELECT count(*) FROM node_onboardings`); n != 1 {
		t.Errorf("%d onboardings", n)
	}
}

// What belongs to the site or its profiles is refused with a word about where.
func TestMisplacedFieldsAreExplained(t *testing.T) {
	d := newDesk(t)
	for field, where := range map[string]string{
		"pxe_mac": "observed", "roce": "roce-assignments", "roce_ips": "roce-assignments",
		"roce_interfaces": "gpuaas site roce import",
		"retry_policy":    "gpuaas site profile set", "max_deploy_retry_attempts": "profile", "discovery_policy": "profile",
		"auto_claim_single_new_machine": "profile", "timeouts": "profile", "ipmi_password": "gpuaas site credentials set",
	} {
		for name, c := range map[string]struct {
			path, field string
			body        object
		}{
			"one":       {"onboardings", "body." + field, d.one(object{field: bmcPass})},
			"preflight": {"onboardings/preflight", "body." + field, d.one(object{field: []string{"x"}})},
			"batch": {
				"onboardings/batch", "body." + field,
				d.selectors(object{"nodes": []object{{"hostname": "a", "ipmi_ip": "10.0.0.1"}}, field: object{"a": 1}}),
			},
			"row": {
				"onboardings/batch", "body.nodes[0]." + field,
				d.selectors(object{"nodes": []object{{"hostname": "a", "ipmi_ip": "10.0.0.1", field: 3}}}),
			},
		} {
			a := d.call(t, http.MethodPost, c.path, c.body)
			p := a.Wants(t, http.StatusUnprocessableEntity, "validation_error", c.field)
			if len(p.Errors) != 1 || !strings.Contains(p.Errors[0].Message, where) {
				t.Errorf("%s %s: %s", name, field, a.Body)
			}
			if strings.Contains(string(a.Body), bmcPass) {
				t.Errorf("%s %s: the answer repeats what was sent", name, field)
			}
		}
	}
	p := d.call(t, http.MethodPost, "onboardings", d.one(object{"colour": "blue"})).Wants(t,
		http.StatusUnprocessableEntity, "validation_error", "body.colour")
	if p.Errors[0].Message != "is not a field of this request" {
		t.Errorf("%+v", p)
	}
	if n := d.count(t, `SELECT count(*) FROM node_onboardings`) +
		d.count(t, `SELECT count(*) FROM outbox_events WHERE aggregate_kind = 'onboarding'`); n != 0 {
		t.Errorf("%d rows were written", n)
	}
}

func TestMisplacedFieldsAreNotInTheContract(t *testing.T) {
	doc, err := newDesk(t).api.OpenAPI().YAML()
	if err != nil {
		t.Fatal(err)
	}
	for _, body := range []string{
		"OnboardingNewBody", "OnboardingBatchMachineBody", "OnboardingNewBatchBody",
		"OnboardingPreflightBody",
	} {
		_, rest, found := strings.Cut(string(doc), "\n    "+body+":\n")
		schema, _, _ := strings.Cut(rest, "\n    Onboarding")
		if !found || strings.Contains(schema, "pxe_mac") || strings.Contains(schema, "retry") ||
			!strings.Contains(schema, "additionalProperties: false") {
			t.Errorf("%s is described as\n%s", body, schema)
		}
		if strings.Contains(schema, "initialize_disks") && !strings.Contains(schema, "DESTROYS ALL DATA") {
			t.Errorf("%s does not say what initialize_disks does", body)
		}
	}
}

func TestBadRequestsStartNothing(t *testing.T) {
	d := newDesk(t)
	d.requested(t, "taken", "10.0.0.9")
	unknown := id.NewString()
	many := make([]object, onboarding.MaxBatch+1)
	for i := range many {
		many[i] = object{"hostname": fmt.Sprintf("n%d", i), "ipmi_ip": fmt.Sprintf("10.1.%d.%d", i/250, i%250+1)}
	}
	before := d.count(t, `SELECT count(*) FROM node_onboardings`)
	for name, c := range map[string]struct {
		path   string
		body   object
		status int
		code   string
		fields []string
	}{
		"no BMC": {"onboardings", d.selectors(object{"hostname": "a"}), 422, "validation_error", []string{"body"}},
		"loopback": {
			"onboardings", d.one(object{"ipmi_ip": "127.0.0.1"}), 422, "validation_error",
			[]string{"body.ipmi_ip"},
		},
		"not a name": {
			"onboardings", d.one(object{"hostname": "a b"}), 422, "validation_error",
			[]string{"body.hostname"},
		},
		"unknown site":    {"onboardings", d.one(object{"site_id": unknown}), 404, "not_found", nil},
		"unknown profile": {"onboardings", d.one(object{"profile_id": unknown}), 404, "not_found", nil},
		"unknown SKU":     {"onboardings", d.one(object{"sku_id": "none"}), 422, "validation_error", []string{"body.sku_id"}},
		"name in flight": {
			"onboardings", d.one(object{"hostname": "TAKEN"}), 409, "onboarding_conflict",
			[]string{"body.hostname"},
		},
		"BMC in flight": {
			"onboardings", d.one(object{"ipmi_ip": "10.0.0.9"}), 409, "onboarding_conflict",
			[]string{"body.ipmi_ip"},
		},
		"empty batch": {"onboardings/batch", d.selectors(object{"nodes": []object{}}), 422, "batch_empty", nil},
		"large batch": {"onboardings/batch", d.selectors(object{"nodes": many}), 422, "batch_too_large", nil},
		"twice": {
			"onboardings/batch", d.selectors(object{"nodes": []object{many[0], many[1], many[0]}}), 409,
			"onboarding_conflict",
			[]string{"body.nodes[2].hostname", "body.nodes[2].ipmi_ip"},
		},
		"bad row": {
			"onboardings/batch", d.selectors(
				object{"nodes": []object{many[0], {"hostname": "b", "ipmi_ip": "224.0.0.1"}}}), 422, "validation_error",
			[]string{"body.nodes[1].ipmi_ip"},
		},
		"both forms": {
			"onboardings/preflight", d.one(object{"nodes": []object{many[0]}}), 422, "validation_error",
			[]string{"body.nodes"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			d.call(t, http.MethodPost, c.path, c.body).Wants(t, c.status, c.code, c.fields...)
		})
	}
	d.set(t, `UPDATE maas_sites SET status = 'disabled'`)
	d.call(t, http.MethodPost, "onboardings", d.one(nil)).Wants(t, http.StatusConflict, "site_disabled")
	if after := d.count(t, `SELECT count(*) FROM node_onboardings`); after != before {
		t.Errorf("%d onboardings were started", after-before)
	}
}

func TestBatchesOverTheAPI(t *testing.T) {
	d := newDesk(t)
	d.set(t, `UPDATE maas_sites SET max_parallel = 1`)
	a := d.call(t, http.MethodPost, "onboardings/batch", d.selectors(object{"initialize_disks": true, "nodes": []object{
		{"hostname": "b", "ipmi_ip": "10.0.0.2"},
		{"hostname": "a", "ipmi_ip": "10.0.0.1"},
		{"hostname": "c", "ipmi_ip": "10.0.0.3"},
	}}))
	var made onboarding.NewBatchView
	a.Decode(t, &made)
	if a.Status != http.StatusAccepted || len(made.Onboardings) != 3 || made.Onboardings[0].Hostname != "b" ||
		made.Onboardings[2].NodeID.IsZero() {
		t.Fatalf("answer is %d %s", a.Status, a.Body)
	}
	d.park(t, made.Onboardings[0].OnboardingID, "failed_manual_intervention")
	d.requested(t, "alone", "10.0.0.9")
	list := d.list(t, "?batch_id="+made.BatchID.String())
	if len(list) != 3 || list[0].BatchID == nil || *list[0].BatchID != made.BatchID || !list[0].InitializeDisks {
		t.Errorf("listed %+v", list)
	}
	path := "onboarding-batches/" + made.BatchID.String()
	var b onboarding.BatchView
	d.call(t, http.MethodGet, path, nil).Decode(t, &b)
	if b.State != job.BatchRunning || b.Total != 3 || b.Counts.Pending != 2 || b.Counts.FailedManualIntervention != 1 ||
		b.Failed != 1 || b.Succeeded != 0 {
		t.Errorf("batch is %+v", b)
	}
	var all struct{ Items []onboarding.BatchView }
	d.call(t, http.MethodGet, "onboarding-batches", nil).Decode(t, &all)
	if len(all.Items) != 1 || all.Items[0].BatchID != id.JobBatch(made.BatchID) {
		t.Errorf("batches are %+v", all)
	}
	for _, c := range []struct {
		verb string
		want job.BatchState
	}{{"pause", job.BatchPaused}, {"resume", job.BatchRunning}, {"cancel", job.BatchCancelled}} {
		d.call(t, http.MethodPost, path+"/"+c.verb, object{}).Wants(t, http.StatusUnprocessableEntity, "validation_error",
			"body")
		a := d.call(t, http.MethodPost, path+"/"+c.verb, object{"reason": "test"})
		a.Decode(t, &b)
		if a.Status != http.StatusAccepted || b.State != c.want {
			t.Errorf("%s answers %d %s", c.verb, a.Status, a.Body)
		}
		var e onboarding.Explanation
		d.call(t, http.MethodGet, "onboardings/"+made.Onboardings[1].OnboardingID.String()+"/explain", nil).Decode(t, &e)
		resume := "gpuaas onboarding batch resume " + made.BatchID.String()
		if strings.Contains(e.Remedy, resume) != (c.verb == "pause") ||
			strings.Contains(e.Observed, " is paused by ") != (c.verb == "pause") ||
			strings.Contains(e.Observed, "1 of 1 slots of site ") != (c.verb != "cancel") {
			t.Errorf("after %s it is explained as %+v", c.verb, e)
		}
	}
	d.call(t, http.MethodGet, "onboarding-batches/"+id.NewString(), nil).Wants(t, http.StatusNotFound,
		"onboarding_batch_not_found")
}

func (d *desk) list(tb testing.TB, query string) []onboarding.View {
	tb.Helper()
	var page struct{ Items []onboarding.View }
	d.call(tb, http.MethodGet, "onboardings"+query, nil).Decode(tb, &page)
	return page.Items
}

func TestListIsNarrowed(t *testing.T) {
	d := newDesk(t)
	one, two, three := d.requested(t, "c07u1", "10.0.0.1"), d.requested(t, "c07u2", "10.0.0.2"),
		d.requested(t, "d01u3", "10.0.0.3")
	d.park(t, one.OnboardingID, "failed_manual_intervention")
	d.park(t, two.OnboardingID, "failed_retryable")
	for query, want := range map[string]string{
		"":                         "d01u3 c07u2 c07u1",
		"?hostname=C07":            "c07u2 c07u1",
		"?status=failed":           "c07u2 c07u1",
		"?status=failed_retryable": "c07u2",
		"?status=failed_retryable&status=pending": "d01u3 c07u2",
		"?status=failed_retryable,pending":        "d01u3 c07u2",
		"?status=running":                         "",
		"?site_id=" + d.site.String():             "d01u3 c07u2 c07u1",
		"?site_id=" + id.NewString():              "",
	} {
		var names []string
		for _, v := range d.list(t, query) {
			names = append(names, v.Hostname)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s lists %q, want %q", query, got, want)
		}
	}
	d.call(t, http.MethodGet, "onboardings?status=broken", nil).Wants(t, http.StatusUnprocessableEntity,
		"validation_error", "query.status")
	d.call(t, http.MethodGet, "onboardings?batch_id=x", nil).Wants(t, http.StatusUnprocessableEntity, "validation_error")
	var first struct {
		Items      []onboarding.View
		NextCursor string `json:"next_cursor"`
	}
	d.call(t, http.MethodGet, "onboardings?page_size=2", nil).Decode(t, &first)
	rest := d.list(t, "?page_size=2&cursor="+first.NextCursor)
	if len(first.Items) != 2 || len(rest) != 1 || rest[0].OnboardingID != one.OnboardingID ||
		first.Items[0].OnboardingID != three.OnboardingID {
		t.Errorf("pages are %+v and %+v", first, rest)
	}
}

func TestParkedIsShownAndExplained(t *testing.T) {
	d := newDesk(t)
	of := d.requested(t, "c07u43", "10.0.0.1").OnboardingID
	d.park(t, of, "failed_manual_intervention")
	path := "onboardings/" + of.String()
	var v onboarding.DetailView
	d.call(t, http.MethodGet, path, nil).Decode(t, &v)
	if v.Failure == nil || v.Failure.Code != "failed_commission" || v.Failure.Details["script"] != "smart" ||
		v.RecommendedAction != job.Rerun ||
		v.Facts["commissions"] != 1.0 || len(v.Events) != 2 || v.Events[1].Status != job.StageFailed ||
		v.Observed.MAASStatus != "Failed commissioning" {
		t.Errorf("it is shown as %+v", v)
	}
	var e onboarding.Explanation
	d.call(t, http.MethodGet, path+"/explain", nil).Decode(t, &e)
	if e.Stage != "wait_for_ready" || e.FailureClass != bringup.HardwareMismatch || e.ObservedSince == nil ||
		e.WaitingSince == nil ||
		!e.Actions[0].Legal || e.Actions[0].Action != job.Rerun || e.Actions[0].Rank != 1 || e.LikelyCause == "" {
		t.Errorf("it is explained as %+v", e)
	}
	var events struct {
		Items      []onboarding.EventView
		NextCursor string `json:"next_cursor"`
	}
	d.call(t, http.MethodGet, path+"/events?page_size=1", nil).Decode(t, &events)
	first := events.Items[0].Seq
	d.call(t, http.MethodGet, path+"/events?page_size=1&cursor="+events.NextCursor, nil).Decode(t, &events)
	if len(events.Items) != 1 || events.Items[0].Seq <= first {
		t.Errorf("the second page is %+v", events)
	}
}

func TestEachVerbIsAnAction(t *testing.T) {
	d := newDesk(t)
	for i, c := range []struct {
		word   string
		action job.Trigger
		after  job.Status
	}{
		{"retry", job.RetryStage, job.Running},
		{"resume", job.Resume, job.Running},
		{"rerun", job.Rerun, job.Running},
		{"restart-clean", job.RestartClean, job.Compensating},
		{"cancel", job.Cancel, job.Compensating},
		{"adopt", job.AdoptObserved, job.Running},
		{"mark-manual-intervention", job.MarkManual, job.FailedManualIntervention},
	} {
		t.Run(c.word, func(t *testing.T) {
			job := d.requested(t, fmt.Sprintf("n%d", i), fmt.Sprintf("10.0.0.%d", i+1)).OnboardingID
			path := "onboardings/" + job.String() + "/" + c.word
			if c.action != "cancel" { // a pending one can be cancelled
				p := d.call(t, http.MethodPost, path, object{"reason": "too early"}).Wants(t, http.StatusConflict,
					"action_not_allowed")
				if !strings.Contains(p.Remedy, "cancel") {
					t.Errorf("the refusal does not say what is legal: %+v", p)
				}
			}
			d.park(t, job, "failed_retryable")
			d.call(t, http.MethodPost, path, object{}).Wants(t, http.StatusUnprocessableEntity, "validation_error", "body")
			d.call(t, http.MethodPost, path, object{"reason": ""}).Wants(t, http.StatusUnprocessableEntity, "validation_error",
				"body.reason")
			a := d.call(t, http.MethodPost, path, object{"reason": "cable replaced"})
			var v onboarding.View
			a.Decode(t, &v)
			if a.Status != http.StatusAccepted || v.Status != c.after || v.PendingAction != c.action || v.Epoch != 2 {
				t.Errorf("answer is %d %s", a.Status, a.Body)
			}
			if n := d.count(t, `SELECT count(*) FROM audit_logs WHERE target_id = $1 AND reason = 'cable replaced' AND action = $2`, job.String(), "onboarding."+string(c.action)); n != 1 {
				t.Errorf("%d audit entries", n)
			}
		})
	}
}

// Auditors read everything and change nothing; others do neither.
func TestWhoMayOnboard(t *testing.T) {
	d := newDesk(t)
	job := d.requested(t, "a", "10.0.0.1").OnboardingID.String()
	for _, read := range []string{
		"onboardings", "onboardings/" + job, "onboardings/" + job + "/explain",
		"onboardings/" + job + "/events", "onboarding-batches", "onboarding-stages",
	} {
		if a := d.callAs(t, "auditor", http.MethodGet, read, "", nil); a.Status != http.StatusOK {
			t.Errorf("an auditor reads %s: %d %s", read, a.Status, a.Body)
		}
		d.callAs(t, "guest", http.MethodGet, read, "", nil).Wants(t, http.StatusForbidden, "insufficient_permissions")
	}
	for _, change := range []string{
		"onboardings", "onboardings/batch", "onboardings/preflight",
		"onboardings/" + job + "/cancel",
	} {
		d.callAs(t, "auditor", http.MethodPost, change, id.NewString(), d.one(nil)).Wants(t, http.StatusForbidden,
			"insufficient_permissions")
	}
}

func TestStagesAreListed(t *testing.T) {
	var all struct{ Items []onboarding.StageView }
	newDesk(t).call(t, http.MethodGet, "onboarding-stages", nil).Decode(t, &all)
	if len(all.Items) != len(onboarding.Stages()) || all.Items[10].Name != "wait_for_deployed" ||
		all.Items[10].Number != 11 ||
		all.Items[10].Limit != "deploy" {
		t.Fatalf("stages are %+v", all)
	}
	for _, s := range all.Items {
		if len(s.Fails) == 0 || s.Fails[0].RecommendedAction == "" || s.Fails[0].Status == "" || s.Expects == "" {
			t.Errorf("%+v", s)
		}
	}
}

func TestFeedTellsOfWhatIsFollowed(t *testing.T) {
	d := newDesk(t)
	batch, job := id.NewString(), id.NewString()
	about := func(batch, job string) *eventwire.Envelope {
		return &eventwire.Envelope{
			EventType: eventwire.NodeOnboardingStage,
			Payload:   []byte(fmt.Sprintf(`{"batch_id":%q,"onboarding_id":%q}`, batch, job)),
		}
	}
	d.feed.items = []outbox.FeedItem{
		{Position: 7, Mark: &outbox.Mark{Position: 7}},
		{Position: 8, Event: about(batch, job)},
		{Position: 9, Event: about(batch, id.NewString())},
		{Position: 10, Event: about("", job)},
		{Position: 11, Gap: &outbox.Gap{RequestedAfter: 1, ContinuesFrom: 12}},
	}
	for query, want := range map[string]string{
		"":                            "7 8 9 10 11",
		"?batch_id=" + batch:          "7 8 9 11",
		"?onboarding_id=" + job:       "7 8 10 11",
		"?batch_id=" + id.NewString(): "7 11",
	} {
		a := d.call(t, http.MethodGet, "onboardings/feed"+query, nil)
		var ids []string
		for line := range strings.Lines(string(a.Body)) {
			if v, ok := strings.CutPrefix(line, "id: "); ok {
				ids = append(ids, strings.TrimSpace(v))
			}
		}
		if got := strings.Join(ids, " "); got != want || a.Status != http.StatusOK {
			t.Errorf("%s tells %q, want %q: %s", query, got, want, a.Body)
		}
	}
	if d.feed.asked.Type != "node.onboarding." || d.feed.asked.Resume {
		t.Errorf("asked for %+v", d.feed.asked)
	}
	d.call(t, http.MethodGet, "onboardings/feed?last_event_id=41", nil)
	if !d.feed.asked.Resume || d.feed.asked.After != 41 {
		t.Errorf("asked for %+v", d.feed.asked)
	}
	d.call(t, http.MethodGet, "onboardings/feed?last_event_id=x", nil).Wants(t, http.StatusUnprocessableEntity,
		"last_event_id_invalid")
}
