package onboarding_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/durable/durabletest"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/job"
	"gpuaas/controlplane/internal/work/onboarding"
)

func parallel(most int32) func(*site.SettingsChange) {
	return func(s *site.SettingsChange) { s.MaxParallel = &most }
}

func (y *yard) batch(tb testing.TB, from, count int) onboarding.Batch {
	tb.Helper()
	b, _, err := y.service.RequestBatch(y.ctx, y.asked(from, count))
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// admitted is how many onboardings of a batch have a place and were not begun once
// all places are handed out, and how many have none.
func (y *yard) admitted(tb testing.TB, b onboarding.Batch) (start, waiting int) {
	tb.Helper()
	if err := job.Tend(y.ctx, y.db, time.Now()); err != nil {
		tb.Fatal(err)
	}
	a, err := y.service.Admission(y.ctx, b.ID)
	if err != nil {
		tb.Fatal(err)
	}
	return len(a.Start), a.Waiting
}

// started makes those that were admitted run.
func (y *yard) started(tb testing.TB, b onboarding.Batch) {
	tb.Helper()
	y.exec(tb, `UPDATE node_onboardings SET status = 'running', started_at = clock_timestamp() WHERE batch_id = $1 AND status = 'pending' AND admitted_at IS NOT NULL`, b.ID)
}

// ended ends some of those that run.
func (y *yard) ended(tb testing.TB, b onboarding.Batch, count int) {
	tb.Helper()
	y.exec(tb, `UPDATE node_onboardings SET status = 'completed', completed_at = clock_timestamp()
		WHERE id IN (SELECT id FROM node_onboardings WHERE batch_id = $1 AND status = 'running' ORDER BY id LIMIT $2)`, b.ID, count)
}

func TestABatchIsOneTransaction(t *testing.T) {
	y := newYard(t)
	b, rows, err := y.service.RequestBatch(y.ctx, y.asked(1, 25))
	if err != nil || b.Total != 25 || len(rows) != 25 || b.Counts[job.Pending] != 25 || b.State() != job.BatchRunning {
		t.Fatalf("%+v %d %v", b, len(rows), err)
	}
	nodes := map[id.Node]bool{}
	for i, o := range rows {
		if o.Hostname != fmt.Sprintf("c%04d", i+1) || o.Batch != b.ID || o.AdmittedAt != nil ||
			o.WorkflowID != "onboarding-"+o.ID.String() {
			t.Errorf("%d: %+v", i, o)
		}
		nodes[o.Node] = true
	}
	if len(nodes) != 25 {
		t.Errorf("%d ids of nodes", len(nodes))
	}
	if n := y.count(t, `SELECT count(*) FROM outbox_events WHERE event_type = 'workflow.signal' AND aggregate_id = $1`,
		"onboarding-batch-"+b.ID.String()); n != 1 {
		t.Errorf("%d starts of its workflow", n)
	}
	if n := y.count(t, `SELECT count(*) FROM outbox_events WHERE event_type = 'MaasNodeOnboardWorkflow'`); n != 0 {
		t.Errorf("%d starts of other workflows", n)
	}
	if n := y.count(t, `SELECT count(*) FROM audit_logs WHERE action = 'onboarding_batch.request' AND target_id = $1`,
		b.ID.String()); n != 1 {
		t.Errorf("%d audit entries", n)
	}
}

// The limit of the profile holds within a batch, that of the site over all
// batches and single ones, and whoever gives a place back tells those who wait.
func TestLimitsOfBatchesAndSites(t *testing.T) {
	y := newYard(t, parallel(13))
	first, second := y.batch(t, 1, 30), y.batch(t, 101, 30)
	if start, waiting := y.admitted(t, first); start != 10 || waiting != 20 { // the profile allows 10
		t.Errorf("first: %d, %d wait", start, waiting)
	}
	if start, waiting := y.admitted(t, first); start != 10 || waiting != 20 { // a repetition names the same ones
		t.Errorf("first, again: %d, %d wait", start, waiting)
	}
	if start, waiting := y.admitted(t, second); start != 3 || waiting != 27 { // the site allows 13
		t.Errorf("second: %d, %d wait", start, waiting)
	}
	y.started(t, first)
	y.started(t, second)
	single := y.request(t, 201)
	if single.AdmittedAt != nil || y.count(t, `SELECT count(*) FROM outbox_events WHERE aggregate_id = $1`,
		single.WorkflowID) != 0 {
		t.Errorf("there was no place for %+v", single)
	}
	if used, limit, err := y.service.Slots(y.ctx, y.site.ID); used != 13 || limit != 13 || err != nil {
		t.Errorf("%d of %d, %v", used, limit, err)
	}

	// One of the first batch is parked: its place goes to the single one.
	running, err := y.service.List(y.ctx, onboarding.Filter{Batch: first.ID, Statuses: []job.Status{job.Running}},
		postgres.Slice[id.Onboarding]{Limit: 100})
	if err != nil || len(running) != 10 {
		t.Fatal(len(running), err)
	}
	if _, err := y.service.Act(y.ctx, running[0].ID, job.MarkManual, "because"); err != nil {
		t.Fatal(err)
	}
	if now := y.read(t, single.ID); now.AdmittedAt == nil ||
		y.count(t, `SELECT count(*) FROM outbox_events WHERE event_type = 'MaasNodeOnboardWorkflow' AND aggregate_id = $1`,
			single.WorkflowID) != 1 {
		t.Errorf("%+v", now)
	}
	for _, b := range []onboarding.Batch{first, second} {
		if n := y.count(t, `SELECT count(*) FROM outbox_events WHERE event_type = 'workflow.signal' AND aggregate_id = $1`,
			"onboarding-batch-"+b.ID.String()); n != 1 {
			t.Errorf("batch heard %d times", n)
		}
		if start, _ := y.admitted(t, b); start != 0 {
			t.Errorf("%d admitted beyond the limit", start)
		}
	}

	// An operator's action takes a place regardless of the limit.
	if now, err := y.service.Act(y.ctx, running[0].ID, job.RetryStage, "because"); err != nil ||
		now.Status != job.Running {
		t.Errorf("%+v %v", now, err)
	}
	if used, _, _ := y.service.Slots(y.ctx, y.site.ID); used != 14 {
		t.Errorf("%d in use", used)
	}
	y.ended(t, first, 5)
	if start, _ := y.admitted(t, second); start != 0 { // the batch that was asked for first goes first
		t.Errorf("%d got the places of others", start)
	}
	if start, _ := y.admitted(t, first); start != 4 {
		t.Errorf("%d got places", start)
	}
}

func TestPauseResumeAndCancelOfABatch(t *testing.T) {
	y := newYard(t)
	b := y.batch(t, 1, 30)
	if _, err := y.service.PauseBatch(y.ctx, b.ID, " "); fault.CodeOf(err) != "reason_missing" {
		t.Errorf("%v", err)
	}
	if start, _ := y.admitted(t, b); start != 10 {
		t.Fatalf("%d", start)
	}
	y.started(t, b)
	for range 2 {
		if now, err := y.service.PauseBatch(y.ctx, b.ID, "lunch"); err != nil || now.State() != job.BatchPaused ||
			now.PausedAt == nil {
			t.Errorf("%+v %v", now, err)
		}
	}
	y.ended(t, b, 4)
	if start, waiting := y.admitted(t, b); start != 0 || waiting != 20 {
		t.Errorf("paused: %d, %d wait", start, waiting)
	}
	if now, err := y.service.ResumeBatch(y.ctx, b.ID, "lunch is over"); err != nil || now.State() != job.BatchRunning {
		t.Errorf("%+v %v", now, err)
	}
	if start, waiting := y.admitted(t, b); start != 4 || waiting != 16 {
		t.Errorf("resumed: %d, %d wait", start, waiting)
	}
	for range 2 {
		now, err := y.service.CancelBatch(y.ctx, b.ID, "wrong rack")
		if err != nil || now.State() != job.BatchCancelled || now.Counts[job.Cancelled] != 20 ||
			now.Counts[job.Compensating] != 6 || now.Counts[job.Completed] != 4 {
			t.Errorf("%+v %v", now, err)
		}
	}
	if start, waiting := y.admitted(t, b); start != 0 || waiting != 0 {
		t.Errorf("cancelled: %d, %d wait", start, waiting)
	}
	if n := y.count(t, `SELECT count(*) FROM outbox_events WHERE event_type = 'node.onboarding.cancelled'`); n != 20 {
		t.Errorf("told of %d", n)
	}
	if n := y.count(t, `SELECT count(*) FROM job_events WHERE status = 'action' AND message = 'wrong rack'`); n != 26 {
		t.Errorf("%d entries of ledgers", n)
	}
	if _, err := y.service.ResumeBatch(y.ctx, b.ID, "no, it was right"); fault.CodeOf(err) != "batch_cancelled" {
		t.Errorf("%v", err)
	}
	if n := y.count(t, `SELECT count(*) FROM audit_logs WHERE target_id = $1 AND action LIKE 'onboarding_batch.%' AND reason <> ''`, b.ID.String()); n != 3 {
		t.Errorf("%d audit entries", n)
	}
	if _, err := y.service.Batch(y.ctx, id.New[id.OnboardingBatch]()); fault.KindOf(err) != fault.NotFound {
		t.Errorf("%v", err)
	}
}

// A thousand machines: each is started once, never more at once than allowed,
// by runs of the workflow with short histories.
func TestABatchOfAThousand(t *testing.T) {
	y := newYard(t, parallel(60))
	most := int32(50)
	if _, err := y.sites.UpdateProfile(y.ctx, y.site.ID, y.profile(t).ID, y.profile(t).Version,
		site.ProfileChange{Policy: site.PolicyChange{BatchMaxParallel: &most}}); err != nil {
		t.Fatal(err)
	}
	b := y.batch(t, 1, 1000)
	started := map[id.Onboarding]int{}
	runs, peak := 0, 0
	for again := true; again; runs++ {
		live, told := 0, func() {}
		child := func(ctx workflow.Context, in onboarding.Input) error {
			started[in.ID]++
			live++
			peak = max(peak, live)
			y.exec(t, `UPDATE node_onboardings SET status = 'running' WHERE id = $1`, in.ID)
			if err := workflow.Sleep(ctx, time.Minute); err != nil {
				return err
			}
			live--
			if len(started)%7 == 0 { // one that fails holds nobody up
				y.exec(t, `UPDATE node_onboardings SET status = 'failed_manual_intervention', parked_at = clock_timestamp() WHERE id = $1`, in.ID)
			} else {
				y.exec(t, `UPDATE node_onboardings SET status = 'completed', completed_at = clock_timestamp() WHERE id = $1`, in.ID)
			}
			told()
			return nil
		}
		env := durabletest.New(t, func(w worker.Registry) {
			w.RegisterWorkflow(onboarding.BatchWorkflow)
			w.RegisterWorkflowWithOptions(child, workflow.RegisterOptions{Name: "MaasNodeOnboardWorkflow"})
			w.RegisterActivityWithOptions(y.service.Admission, activity.RegisterOptions{Name: "AdmitOnboardingBatch"})
		})
		told = func() {
			if err := job.Tend(y.ctx, y.db, time.Now()); err != nil {
				t.Error(err)
			}
			env.SignalWorkflow("turn", nil)
		}
		env.ExecuteWorkflow(onboarding.BatchWorkflow, onboarding.BatchInput{ID: b.ID})
		err := env.GetWorkflowError()
		var more *workflow.ContinueAsNewError
		if again = errors.As(err, &more); err != nil && !again {
			t.Fatal(err)
		}
		if again { // children live on without their parent; here they end with it
			y.exec(t, `UPDATE node_onboardings SET status = 'completed', completed_at = clock_timestamp() WHERE batch_id = $1 AND status = 'running'`, b.ID)
			if err := job.Tend(y.ctx, y.db, time.Now()); err != nil {
				t.Fatal(err)
			}
		}
	}
	for o, times := range started {
		if times != 1 {
			t.Errorf("%s was started %d times", o, times)
		}
	}
	if len(started) != 1000 || peak > 50 || runs < 4 {
		t.Errorf("%d started in %d runs, %d at once", len(started), runs, peak)
	}
}

func (y *yard) profile(tb testing.TB) site.Profile {
	tb.Helper()
	list, err := y.sites.Profiles(y.ctx, y.site.ID, postgres.Slice[id.Profile]{Limit: 10})
	if err != nil || len(list) != 1 {
		tb.Fatal(list, err)
	}
	return list[0]
}

// Names and addresses that are in use anywhere are refused, each by its row, and
// nothing is started.
func TestConflictsAreNamedAndNothingIsStarted(t *testing.T) {
	y := newYard(t)
	if done := y.run(t, y.request(t, 1).ID); done.Status != job.Completed { // in the inventory
		t.Fatalf("%+v", done)
	}
	y.script.fails(always, bringup.LoadSiteConfig, failure(bringup.InputConfigError))
	y.run(t, y.request(t, 2).ID) // parked: in flight
	n := y.asked(3, 1)
	n.Machines = append(n.Machines,
		onboarding.Request{Hostname: "c0001", IPMIIP: "10.9.0.1"}, onboarding.Request{Hostname: "other", IPMIIP: "10.1.0.2"},
		onboarding.Request{Hostname: "C0002", IPMIIP: "10.9.0.3"},
		onboarding.Request{Hostname: "another", IPMIIP: "10.1.0.3"},
		onboarding.Request{Hostname: "c0003", IPMIIP: "::ffff:10.1.0.4"}, // twice in the request, under another spelling
	)
	_, _, err := y.service.RequestBatch(y.ctx, n)
	f, _ := fault.As(err)
	if fault.KindOf(err) != fault.Conflict || f.Code != "onboarding_conflict" {
		t.Fatalf("%v", err)
	}
	var paths []string
	for _, field := range f.Fields {
		paths = append(paths, field.Path)
	}
	want := []string{
		"body.nodes[1].hostname", "body.nodes[2].ipmi_ip", "body.nodes[3].hostname", "body.nodes[4].ipmi_ip",
		"body.nodes[5].hostname", "body.nodes[5].ipmi_ip",
	}
	if !slices.Equal(paths, want) {
		t.Errorf("%q", f.Fields)
	}
	taken, err := y.service.InUse(y.ctx, y.site.ID, n.Machines[:2])
	if err != nil || len(taken) != 1 || taken[0].Index != 1 || taken[0].Value != "c0001" {
		t.Errorf("%+v %v", taken, err)
	}
	if rows := y.count(t, `SELECT count(*) FROM node_onboardings`); rows != 2 {
		t.Errorf("%d rows", rows)
	}
}

// Of those who ask for one machine at the same moment, one gets it.
func TestOneMachineManyRequests(t *testing.T) {
	y := newYard(t)
	results := make(chan error, 8)
	for range cap(results) {
		go func() {
			_, err := y.service.Request(y.ctx, y.asked(1, 1))
			results <- err
		}()
	}
	won := 0
	for range cap(results) {
		switch err := <-results; {
		case err == nil:
			won++
		case fault.CodeOf(err) != "onboarding_conflict":
			t.Error(err)
		}
	}
	if won != 1 {
		t.Errorf("%d got it", won)
	}
}

func TestRequestsThatCannotBeAccepted(t *testing.T) {
	y := newYard(t)
	machine := func(hostname, address string) onboarding.NewOnboarding {
		n := y.asked(1, 1)
		n.Machines[0] = onboarding.Request{Hostname: hostname, IPMIIP: address}
		return n
	}
	unknownSKU, unknownProfile, unknownSite := y.asked(1, 1), y.asked(1, 1), y.asked(1, 1)
	unknownSKU.SKU, unknownProfile.Profile, unknownSite.Site = "nothing", id.New[id.Profile](), id.New[id.Site]()
	for name, c := range map[string]struct {
		n    onboarding.NewOnboarding
		kind fault.Kind
		code string
	}{
		"no name":              {machine("", "10.0.0.1"), fault.Invalid, "validation_error"},
		"name of underscores":  {machine("a_b", "10.0.0.1"), fault.Invalid, "validation_error"},
		"name that ends badly": {machine("a-", "10.0.0.1"), fault.Invalid, "validation_error"},
		"no address":           {machine("a", ""), fault.Invalid, "validation_error"},
		"a name as an address": {machine("a", "bmc.example"), fault.Invalid, "validation_error"},
		"loopback":             {machine("a", "127.0.0.1"), fault.Invalid, "validation_error"},
		"loopback, mapped":     {machine("a", "::ffff:127.0.0.1"), fault.Invalid, "validation_error"},
		"link-local":           {machine("a", "169.254.169.254"), fault.Invalid, "validation_error"},
		"link-local v6":        {machine("a", "fe80::1"), fault.Invalid, "validation_error"},
		"with a zone":          {machine("a", "fe80::1%eth0"), fault.Invalid, "validation_error"},
		"multicast":            {machine("a", "224.0.0.1"), fault.Invalid, "validation_error"},
		"broadcast":            {machine("a", "255.255.255.255"), fault.Invalid, "validation_error"},
		"unspecified":          {machine("a", "0.0.0.0"), fault.Invalid, "validation_error"},
		"unknown SKU":          {unknownSKU, fault.Invalid, "validation_error"},
		"unknown profile":      {unknownProfile, fault.NotFound, "not_found"},
		"unknown site":         {unknownSite, fault.NotFound, "not_found"},
		"two at once":          {y.asked(1, 2), fault.Invalid, "machine_missing"},
	} {
		if _, err := y.service.Request(y.ctx, c.n); fault.KindOf(err) != c.kind || fault.CodeOf(err) != c.code {
			t.Errorf("%s: %v", name, err)
		}
	}
	for code, count := range map[string]int{"batch_empty": 0, "batch_too_large": 1001} {
		if _, _, err := y.service.RequestBatch(y.ctx, y.asked(1, count)); fault.KindOf(err) != fault.Invalid ||
			fault.CodeOf(err) != code {
			t.Errorf("%s: %v", code, err)
		}
	}
	disabled := site.Disabled
	if _, err := y.sites.UpdateSite(y.ctx, y.site.ID, y.site.Version, site.Change{Status: &disabled}); err != nil {
		t.Fatal(err)
	}
	if _, err := y.service.Request(y.ctx, y.asked(1, 1)); fault.CodeOf(err) != "site_disabled" {
		t.Errorf("%v", err)
	}
	if n := y.count(t, `SELECT (SELECT count(*) FROM node_onboardings) + (SELECT count(*) FROM node_onboarding_batches)`); n != 0 {
		t.Errorf("%d rows", n)
	}
}
