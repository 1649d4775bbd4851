package onboarding_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.temporal.io/sdk/testsuite"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/durable"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/job"
	"gpuaas/controlplane/internal/work/onboarding"
)

// working is an onboarding as reconciliation sees it.
func working(o onboarding.Onboarding) bringup.Working {
	return bringup.Working{
		Kind: "onboarding", ID: o.ID.String(), Node: o.Node, SystemID: o.SystemID, Hostname: o.Hostname,
		Parked: o.Parked(),
	}
}

// parks is an onboarding that failed at a stage, for good.
func (y *yard) parks(tb testing.TB, number int, stage string, f job.Failure) onboarding.Onboarding {
	tb.Helper()
	f.Final = true
	y.script.fails(always, stage, f)
	o := y.run(tb, y.request(tb, number).ID)
	y.script.on(stage, nil)
	if !o.Parked() || o.Stage != stage {
		tb.Fatalf("it is %s at %s", o.Status, o.Stage)
	}
	return o
}

// shows is a look at a machine on which nothing is missing any more.
func (y *yard) shows(ctx context.Context, w *bringup.Work) (bringup.Proof, string, error) {
	now := time.Now().UTC()
	w.Observed = bringup.Observed{Status: "Deployed", Power: "on", IPs: []string{"10.20.0.7"}, At: now}
	if w.Facts.DeployedAt == nil {
		w.Facts.DeployedAt = &now
	}
	w.Facts.SyncHealthy, w.Facts.Addresses = &now, []string{"10.20.0.7"}
	return bringup.Proof{
		Image: "ubuntu/noble", AgentVersion: "1.2.3", FirstPollAt: now, LastContactAt: now,
		LastSync: &now, InstalledAt: now,
	}, "", y.script.poll(ctx, w.Node)
}

func (y *yard) reconcile(tb testing.TB, o onboarding.Onboarding) bool {
	tb.Helper()
	reached, err := y.service.Reconcile(y.ctx, working(o))
	if err != nil {
		tb.Fatal(err)
	}
	return reached
}

func (y *yard) explain(tb testing.TB, o id.Onboarding) onboarding.Explanation {
	tb.Helper()
	events, err := y.service.Events(y.ctx, o, 0, 1000)
	if err != nil {
		tb.Fatal(err)
	}
	return onboarding.Explain(y.read(tb, o), events, time.Now())
}

// whole is everything that the database has of an onboarding, its node and what
// was told, as text.
func (y *yard) whole(tb testing.TB, o onboarding.Onboarding) (text string) {
	tb.Helper()
	err := y.owner.QueryRow(y.ctx, `SELECT concat_ws(E'\n', (SELECT to_jsonb(r)::text || (SELECT j.xmin::text FROM jobs j WHERE j.id = r.id) FROM node_onboardings r WHERE id = $1),
		(SELECT to_jsonb(n)::text || n.xmin::text FROM nodes n WHERE n.id = $2), (SELECT to_jsonb(b)::text FROM node_maas_state b WHERE b.node_id = $2),
		(SELECT count(*) FROM job_events), (SELECT count(*) FROM outbox_events), (SELECT count(*) FROM audit_logs), (SELECT count(*) FROM node_events))`,
		o.ID, o.Node).Scan(&text)
	if err != nil {
		tb.Fatal(err)
	}
	return text
}

// What becomes of onboardings that were parked too early: the goal is proven
// reached, and all that belongs to reaching it is done.
func TestLateSuccessIsReconciled(t *testing.T) {
	y := newYard(t)
	cases := map[string]struct {
		stage   string
		failure job.Failure
	}{
		"the node-agent enrols after the workflow marked a failure": {
			bringup.WaitForAgentEnrollment,
			failure(bringup.AgentEnrollmentFailure),
		},
		"the hardware sync comes late": {
			bringup.WaitForHardwareSyncHealthy,
			failure(bringup.HardwareSyncFailure),
		},
		"MAAS reports a later state than expected": {bringup.WaitForDeployed, failure(bringup.StateAmbiguity)},
		"what was needed was away for a while":     {bringup.WaitForAgentEnrollment, failure(bringup.UpstreamTransient)},
	}
	number := 0
	for name, c := range cases {
		number++
		t.Run(name, func(t *testing.T) {
			y.script.proves = nil
			o := y.parks(t, number, c.stage, c.failure)
			before := y.whole(t, o)
			if y.reconcile(t, o) || y.whole(t, o) != before {
				t.Fatal("it is reconciled without any proof")
			}
			y.script.proves = y.shows
			if !y.reconcile(t, o) {
				t.Fatal("it is not reconciled")
			}
			now := y.read(t, o.ID)
			if now.Status != job.Reconciled || now.CompletedAt == nil || now.ParkedAt != nil || now.Epoch != o.Epoch+1 ||
				now.ErrorCode != "" || now.Action != "" {
				t.Errorf("it is %+v", now.Job)
			}
			n, err := node.Get(y.ctx, y.db, o.Node)
			if err != nil || n.Status != node.Active || n.Host != "10.20.0.7" {
				t.Errorf("the node is %s at %s, %v", n.Status, n.Host, err)
			}
			if y.count(t, `SELECT count(*) FROM node_maas_state WHERE node_id = $1 AND maas_system_id = $2 AND last_maas_status = 'Deployed'`, o.Node, o.SystemID) != 1 {
				t.Error("the node is not bound to its machine")
			}
			if y.told(t, o.ID, "node.onboarding.completed") != 1 {
				t.Error("nobody was told")
			}
			if y.count(t, `SELECT count(*) FROM audit_logs WHERE action = 'onboarding.reconcile' AND target_id = $1 AND actor_id = 'system:reconciliation'`, o.ID.String()) != 1 {
				t.Error("there is no audit entry")
			}
			if y.count(t, `SELECT count(*) FROM job_events WHERE job_id = $1 AND status = 'observed' AND message LIKE '%ubuntu/noble%' AND details->>'agent_version' = '1.2.3'`, o.ID) != 1 {
				t.Errorf("the ledger does not say what proved it: %v", y.ledger(t, o.ID))
			}
			if e := y.explain(t, o.ID); !strings.Contains(e.Summary, "a later check proved that") {
				t.Errorf("it is explained as %q", e.Summary)
			}
			after := y.whole(t, o)
			if y.reconcile(t, o) || y.whole(t, o) != after {
				t.Error("it is reconciled twice")
			}
		})
	}
	if n := len(y.script.dropped); n != 0 { // the script keeps no first boots
		t.Errorf("%d first boots were removed", n)
	}
}

// A machine that must be examined before it becomes a node is not made one by what MAAS
// and its agent show: the stage that examines it has its turn first.
func TestLateSuccessDoesNotReplaceTheExaminationOfAMachine(t *testing.T) {
	y := newYard(t)
	differs := failure(bringup.HardwareMismatch)
	differs.Final = true
	number := 0
	for name, c := range map[string]struct {
		disks string
		match bool
		fits  bool
	}{
		"the hardware is that of the SKU":     {"leave", true, true},
		"the hardware is another one":         {"leave", true, false},
		"the data disks are clean":            {"require_clean", false, true},
		"the data disks hold somebody's data": {"require_clean", false, false},
	} {
		number++
		t.Run(name, func(t *testing.T) {
			y.exec(t, `UPDATE maas_site_profiles SET data_disks = $1`, c.disks)
			asked := y.asked(number, 1)
			asked.Asked.MatchHardware = c.match
			o, err := y.service.Request(y.ctx, asked)
			if err != nil {
				t.Fatal(err)
			}
			y.script.proves = nil
			late := failure(bringup.HardwareSyncFailure)
			late.Final = true
			y.script.fails(always, bringup.WaitForHardwareSyncHealthy, late)
			examined := false
			y.script.on(bringup.WaitForAgentEnrollment, func(ctx context.Context, w *bringup.Work, _ int) (job.Result, error) {
				if examined = true; !c.fits {
					return job.Result{}, &differs
				}
				return job.Result{}, y.script.poll(ctx, w.Node)
			})
			end := y.run(t, o.ID, func(env *testsuite.TestWorkflowEnvironment) {
				y.script.on(bringup.WaitForHardwareSyncHealthy, nil)
				y.script.proves = y.shows
				if !y.reconcile(t, o) || y.reconcile(t, o) {
					t.Error("it is not led on, or twice")
				}
				if n, err := node.Get(y.ctx, y.db, o.Node); err != nil || n.Status != node.Enrolling {
					t.Errorf("before anybody examined it, the node is %s, %v", n.Status, err)
				}
				env.SignalWorkflow(durable.ActSignal, nil)
			})
			n, err := node.Get(y.ctx, y.db, o.Node)
			status, is := job.Reconciled, node.Active
			if !c.fits {
				status, is = job.FailedManualIntervention, node.Enrolling
			}
			if err != nil || !examined || end.Status != status || n.Status != is {
				t.Errorf("it is %s at %s, examined %t; the node is %s, %v", end.Status, end.Stage, examined, n.Status, err)
			}
		})
	}
}

// Its workflow is told, and closes; the first boot that it kept is removed.
func TestTheWorkflowOfAReconciledOnboardingCloses(t *testing.T) {
	y := newYard(t)
	late := failure(bringup.AgentEnrollmentFailure)
	late.Final = true
	y.script.on(bringup.WaitForAgentEnrollment, func(_ context.Context, w *bringup.Work, _ int) (job.Result, error) {
		w.Facts.FirstBootPath = "first-boot/onboarding/" + w.Job
		return job.Result{}, &late
	})
	o := y.request(t, 1)
	temporal := y.serve(t)
	y.becomes(t, o.ID, job.FailedManualIntervention)
	y.script.proves = y.shows
	if !y.reconcile(t, o) {
		t.Fatal("it is not reconciled")
	}
	if err := temporal.GetWorkflow(t.Context(), o.WorkflowID, "").Get(t.Context(), nil); err != nil {
		t.Errorf("its workflow ended with %v", err)
	}
	if now := y.read(t, o.ID); now.Status != job.Reconciled {
		t.Errorf("it is %s", now.Status)
	}
	if !slices.Equal(y.script.dropped, []string{o.ID.String()}) {
		t.Errorf("first boots were removed of %v", y.script.dropped)
	}
}

// What may not be ended by proof is not even looked at.
func TestOnlyParkedOnboardingsAreReconciled(t *testing.T) {
	y := newYard(t)
	y.script.proves = y.shows
	number := 0
	for _, state := range job.Parking.Table.States {
		if job.Parking.PhaseOf(state.Name) == job.Parked {
			continue
		}
		number++
		o := y.brought(t, number, state.Name, bringup.WaitForAgentEnrollment)
		before := y.whole(t, o)
		if y.reconcile(t, o) || y.whole(t, o) != before {
			t.Errorf("%s: it is reconciled", state.Name)
		}
	}
	for _, action := range []job.Trigger{job.Cancel, job.RestartClean, job.MarkManual} {
		number++
		o := y.brought(t, number, job.FailedManualIntervention, bringup.WaitForAgentEnrollment)
		y.exec(t, `UPDATE node_onboardings SET action = $2 WHERE id = $1`, o.ID, string(action))
		before := y.whole(t, o)
		if y.reconcile(t, o) || y.whole(t, o) != before {
			t.Errorf("%s: it is reconciled", action)
		}
	}
	if slices.Contains(y.script.called(), "prove") {
		t.Error("somebody looked")
	}
}

// Proof that came to nothing changes nothing: somebody acted meanwhile, the
// inventory disagrees, or there was no look at all.
func TestProofThatDoesNotHoldChangesNothing(t *testing.T) {
	y := newYard(t)
	away := errors.New("MAAS is away")
	quarantine := func(ctx context.Context, of id.Node) error {
		return y.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
			_, err := node.Move(ctx, tx, of, node.Quarantine, "it looks odd")
			return err
		})
	}
	number := 0
	for name, c := range map[string]struct {
		prove func(o onboarding.Onboarding) error // what happens during the look
		err   error
	}{
		"MAAS is away":            {func(onboarding.Onboarding) error { return away }, away},
		"the node is quarantined": {func(o onboarding.Onboarding) error { return quarantine(y.ctx, o.Node) }, nil},
		"the node is gone":        {func(o onboarding.Onboarding) error { return y.abandon(y.ctx, o.Node) }, nil},
		"the agent enrols anew": {func(o onboarding.Onboarding) error {
			y.exec(t, `UPDATE nodes SET first_poll_at = NULL WHERE id = $1`, o.Node)
			return nil
		}, nil},
		"an operator marked it":        {func(o onboarding.Onboarding) error { return y.acts(o, job.MarkManual) }, nil},
		"an operator retried it":       {func(o onboarding.Onboarding) error { return y.acts(o, job.RetryStage) }, nil},
		"an operator began to undo it": {func(o onboarding.Onboarding) error { return y.acts(o, job.Cancel) }, nil},
	} {
		number++
		t.Run(name, func(t *testing.T) {
			o := y.parks(t, number, bringup.WaitForAgentEnrollment, failure(bringup.UpstreamTransient))
			var before string
			y.script.proves = func(ctx context.Context, w *bringup.Work) (bringup.Proof, string, error) {
				p, missing, err := y.shows(ctx, w)
				if err == nil {
					err = c.prove(o)
				}
				before = y.whole(t, o)
				return p, missing, err
			}
			reached, err := y.service.Reconcile(y.ctx, working(o))
			if reached || !errors.Is(err, c.err) {
				t.Errorf("reached is %t, %v", reached, err)
			}
			if after := y.whole(t, o); after != before {
				t.Errorf("something changed:\n%s\n%s", before, after)
			}
		})
	}
}

func (y *yard) acts(o onboarding.Onboarding, action job.Trigger) error {
	_, err := y.service.Act(y.ctx, o.ID, action, "because of the test")
	return err
}

// A proof is for looking: whatever would make an effect is refused.
func TestWhoLooksCannotAct(t *testing.T) {
	y := newYard(t)
	o := y.parks(t, 1, bringup.WaitForAgentEnrollment, failure(bringup.AgentEnrollmentFailure))
	y.script.proves = func(ctx context.Context, w *bringup.Work) (bringup.Proof, string, error) {
		w.Heartbeat()
		if w.Fence(ctx) == nil || w.Save(ctx) == nil || y.db.InTx(ctx, w.FenceIn) == nil {
			t.Error("a look may act")
		}
		return bringup.Proof{}, "nothing is proven", nil
	}
	if y.reconcile(t, o) {
		t.Error("it is reconciled")
	}
}

func TestUnderIsWhatHasNotEnded(t *testing.T) {
	y := newYard(t)
	for i, state := range job.Parking.Table.States {
		y.brought(t, i+1, state.Name, bringup.WaitForReady)
	}
	list, err := y.service.Under(y.ctx, y.site.ID)
	if err != nil {
		t.Fatal(err)
	}
	parked := 0
	for _, w := range list {
		if w.Kind != "onboarding" || w.Hostname == "" || w.Goal == "" || w.String() != "onboarding "+w.ID || w.Node.IsZero() {
			t.Errorf("it is %+v", w)
		}
		if w.Parked {
			parked++
		}
	}
	if len(list) != 5 || parked != 2 {
		t.Errorf("%d have not ended, %d are parked", len(list), parked)
	}
	if list, err := y.service.Under(y.ctx, id.New[id.Site]()); err != nil || len(list) != 0 {
		t.Errorf("another site has %d, %v", len(list), err)
	}
}

// What operators do in MAAS meanwhile is noted once, and a stage that runs goes
// on as if nothing had happened.
func TestAnOperatorWhoChangesMAASIsNoticed(t *testing.T) {
	y := newYard(t)
	sightings := []string{
		"it is Ready in MAAS, and not Deploying", "its machine is not in MAAS any more",
		"its machine was re-created as x8y7z6",
	}
	y.script.on(bringup.WaitForDeployed, func(ctx context.Context, w *bringup.Work, _ int) (job.Result, error) {
		o := bringup.Working{ID: w.Job}
		for _, seen := range sightings {
			for range 2 {
				if err := y.service.Notice(y.ctx, o, seen, map[string]any{"expected": "Deploying"}); err != nil {
					return job.Result{}, err
				}
			}
		}
		if err := w.Fence(ctx); err != nil {
			t.Errorf("the stage lost its job: %v", err)
		}
		return y.script.well(ctx, bringup.WaitForDeployed, w)
	})
	o := y.run(t, y.request(t, 1).ID)
	if o.Status != job.Completed {
		t.Fatalf("it is %s: %s", o.Status, o.ErrorMessage)
	}
	noted := slices.DeleteFunc(y.ledger(t, o.ID), func(e string) bool {
		return !strings.HasPrefix(e, bringup.WaitForDeployed)
	})
	want := []string{
		"wait_for_deployed/1:started", "wait_for_deployed/1:observed", "wait_for_deployed/1:observed",
		"wait_for_deployed/1:observed", "wait_for_deployed/1:succeeded",
	}
	if !slices.Equal(noted, want) {
		t.Errorf("the ledger is %q", noted)
	}
	if n := y.count(t, `SELECT count(*) FROM outbox_events WHERE destination = 'temporal' AND aggregate_id = $1 AND envelope::text LIKE '%"act"%'`, o.WorkflowID); n != 0 {
		t.Error("its workflow was told to stop what it does")
	}
	if n := y.count(t, `SELECT count(*) FROM outbox_events WHERE aggregate_id = $1 AND envelope::text LIKE '%"stage_status": "observed"%'`, o.ID.String()); n != len(sightings) {
		t.Errorf("%d sightings were told", n)
	}
	if err := y.service.Notice(y.ctx, working(o), "too late", nil); err != nil || len(y.ledger(t, o.ID)) == 0 ||
		strings.HasSuffix(y.ledger(t, o.ID)[len(y.ledger(t, o.ID))-1], "observed") {
		t.Errorf("what has ended is told something, %v", err)
	}
}

func TestALateAgentWakesItsParkedOnboarding(t *testing.T) {
	for code, want := range map[string]job.Status{
		"failed_enrollment": job.Completed, "gpuaas_bootstrap_failed": job.Completed, "site_bootstrap_failed": job.Completed,
		"machine_not_deployed": job.FailedManualIntervention, // an agent mends nothing of that
	} {
		t.Run(code, func(t *testing.T) {
			y := newYard(t)
			came := false
			y.script.on(bringup.WaitForAgentEnrollment, func(ctx context.Context, w *bringup.Work, _ int) (job.Result, error) {
				if came {
					return y.script.well(ctx, bringup.WaitForAgentEnrollment, w)
				}
				return job.Result{}, job.CodeNamed(code).FailedAs(bringup.AgentEnrollmentFailure, "no agent").ForGood()
			})
			o := y.request(t, 1)
			o = y.run(t, o.ID, func(env *testsuite.TestWorkflowEnvironment) {
				came = true
				env.SignalWorkflow(node.EnrolledSignal, nil)
			})
			woken := y.count(t, `SELECT count(*) FROM audit_logs WHERE action = 'onboarding.wake' AND actor_id LIKE 'system:%'`)
			if o.Status != want || woken == 1 != (want == job.Completed) {
				t.Errorf("it is %s (%s) and was woken %d times, want %s", o.Status, o.ErrorCode, woken, want)
			}
		})
	}
}

// The stage that waits for the agent does not look at MAAS while it waits: it is
// made to. A parked onboarding says what was seen since.
func TestAWaitingStageLooksAgain(t *testing.T) {
	y := newYard(t)
	looks := 0
	gone := job.Failure{
		Class: bringup.StateAmbiguity, Code: job.CodeNamed("machine_not_deployed"),
		Message: "it is Ready in MAAS now", Final: true,
	}
	y.script.on(bringup.WaitForAgentEnrollment, func(context.Context, *bringup.Work, int) (job.Result, error) {
		if looks++; looks == 1 {
			return job.Result{Await: &job.Await{Signal: node.EnrolledSignal, Most: 1000 * time.Hour}}, nil
		}
		return job.Result{}, &gone
	})
	o := y.request(t, 1)
	o = y.run(t, o.ID, func(env *testsuite.TestWorkflowEnvironment) {
		y.exec(t, `DELETE FROM outbox_events`)
		if err := y.service.Notice(y.ctx, working(o), "it is Ready in MAAS, and not Deployed", nil); err != nil {
			t.Error(err)
		}
		if y.count(t, `SELECT count(*) FROM outbox_events WHERE destination = 'temporal' AND aggregate_id = $1 AND envelope::text LIKE '%node_enrolled%'`, o.WorkflowID) != 1 {
			t.Error("its workflow is not told")
		}
		env.SignalWorkflow(node.EnrolledSignal, nil)
	})
	if o.Status != job.FailedManualIntervention || o.ErrorCode != "machine_not_deployed" || looks != 2 {
		t.Errorf("it is %s with %s after %d looks", o.Status, o.ErrorCode, looks)
	}
	before := o
	if err := y.service.Notice(y.ctx, working(o), "it is New in MAAS", nil); err != nil {
		t.Fatal(err)
	}
	for range 3 { // two sightings that take turns are noted once each
		for _, seen := range []string{"it is New in MAAS", "its name is another one", "it is New in MAAS"} {
			if err := y.service.Notice(y.ctx, working(o), seen, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := y.count(t, `SELECT count(*) FROM job_events WHERE job_id = $1 AND status = 'observed'`, o.ID); n != 3 {
		t.Errorf("%d sightings are noted", n)
	}
	if now := y.read(t, o.ID); !now.UpdatedAt.Equal(before.UpdatedAt) || now.Epoch != before.Epoch {
		t.Error("a notice changed the row")
	}
	if e := y.explain(t, o.ID); !strings.Contains(e.Observed, "seen since: its name is another one") {
		t.Errorf("it is explained as %q", e.Observed)
	}
}
