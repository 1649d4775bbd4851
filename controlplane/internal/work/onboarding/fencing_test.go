package onboarding_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/testsuite"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/durable"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/job"
	"gpuaas/controlplane/internal/work/onboarding"
)

// execute runs an activity of the service, as a worker would.
func execute(t *testing.T, fn any, args ...any) (turn durable.Turn, err error) {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	env.RegisterActivityWithOptions(fn, activity.RegisterOptions{Name: "it"})
	env.SetWorkerOptions(durable.WorkerOptions(slog.New(slog.DiscardHandler), time.Second))
	out, err := env.ExecuteActivity("it", args...)
	if err != nil {
		return turn, durable.FromTemporal(err)
	}
	return turn, out.Get(&turn)
}

// snapshot is everything that is kept of an onboarding.
func (y *yard) snapshot(t *testing.T, o id.Onboarding) string {
	t.Helper()
	var row, events json.RawMessage
	if err := y.owner.QueryRow(y.ctx, `SELECT to_jsonb(o), (SELECT jsonb_agg(to_jsonb(e)) FROM job_events e WHERE e.job_id = o.id)
		FROM node_onboardings o WHERE id = $1`, o).Scan(&row, &events); err != nil {
		t.Fatal(err)
	}
	return string(row) + string(events)
}

func callOf(o onboarding.Onboarding, stage string, attempt int) durable.StageCall {
	return durable.StageCall{Job: o.ID.String(), Stage: stage, Attempt: attempt, Epoch: o.Epoch}
}

// A run of an older epoch, a stage that the row is not at, an attempt that is
// over: none of them runs or writes anything.
func TestAStaleRunCanDoNothing(t *testing.T) {
	y := newYard(t)
	o := y.brought(t, 1, job.FailedManualIntervention, bringup.WaitForDeployed)
	now, err := y.service.Act(y.ctx, o.ID, job.RetryStage, "because")
	if err != nil {
		t.Fatal(err)
	}
	for name, call := range map[string]durable.StageCall{
		"older epoch":       callOf(o, bringup.WaitForDeployed, 1),
		"another stage":     callOf(now, bringup.DeployViaMAAS, 1),
		"later attempt":     callOf(now, bringup.WaitForDeployed, 3),
		"undoing":           callOf(now, job.StageCompensate, 1),
		"adopting":          callOf(now, job.StageAdopt, 1),
		"epoch of a future": {Job: o.ID.String(), Stage: bringup.WaitForDeployed, Attempt: 1, Epoch: now.Epoch + 1},
	} {
		before := y.snapshot(t, o.ID)
		if _, err := execute(t, y.service.RunStage, call); fault.CodeOf(err) != durable.CodeSuperseded {
			t.Errorf("%s: %v", name, err)
		}
		if after := y.snapshot(t, o.ID); after != before {
			t.Errorf("%s changed\n%s to\n%s", name, before, after)
		}
		turn, err := execute(t, y.service.LoseStage, call,
			durable.StageLoss{Kind: fault.Internal, Code: "lost", Message: "lost"})
		if err != nil || turn.Do != durable.TurnRun || turn.Stage != bringup.WaitForDeployed || turn.Attempt != 1 ||
			turn.Epoch != now.Epoch {
			t.Errorf("%s lost: %+v %v", name, turn, err)
		}
	}
	if len(y.script.called()) != 0 {
		t.Errorf("ran %q", y.script.called())
	}
}

// The answer to the end of a stage is lost: the stage is executed again, sees
// that its end was recorded, and the row says how to go on.
func TestAStageThatEndedIsNotRunAgain(t *testing.T) {
	y := newYard(t)
	o := y.brought(t, 1, job.FailedManualIntervention, bringup.ConfigureStorage)
	o, err := y.service.Act(y.ctx, o.ID, job.RetryStage, "because")
	if err != nil {
		t.Fatal(err)
	}
	call := callOf(o, bringup.ConfigureStorage, 1)
	if turn, err := execute(t, y.service.RunOne, call); err != nil || turn.Stage != bringup.ApplyRoCEPhase2 ||
		turn.Attempt != 1 {
		t.Fatalf("%+v %v", turn, err)
	}
	before := y.snapshot(t, o.ID)
	if _, err := execute(t, y.service.RunOne, call); fault.CodeOf(err) != durable.CodeSuperseded {
		t.Errorf("again: %v", err)
	}
	if y.snapshot(t, o.ID) != before || len(y.script.called()) != 1 {
		t.Errorf("it ran again: %q", y.script.called())
	}
	if turn, err := execute(t, y.service.NextTurn, o.ID.String()); err != nil || turn.Stage != bringup.ApplyRoCEPhase2 ||
		turn.Attempt != 1 {
		t.Errorf("%+v %v", turn, err)
	}
}

// A worker lost touch and another one took the stage up, as the same attempt:
// the first one can do nothing from then on, whenever it wakes.
func TestTwoWorkersAtOneStage(t *testing.T) {
	y := newYard(t)
	o := y.brought(t, 1, job.FailedManualIntervention, bringup.ConfigureStorage)
	o, err := y.service.Act(y.ctx, o.ID, job.RetryStage, "because")
	if err != nil {
		t.Fatal(err)
	}
	asleep, wake := make(chan struct{}), make(chan struct{})
	var fence, save error
	y.script.on(bringup.ConfigureStorage, func(ctx context.Context, w *bringup.Work, n int) (job.Result, error) {
		w.Facts.BootDisk = []string{"", "of the first", "of the second"}[n]
		if err := w.Save(ctx); err != nil {
			return job.Result{}, err
		}
		if n == 1 {
			close(asleep)
			<-wake
			fence, save = w.Fence(ctx), w.Save(ctx)
		}
		return job.Result{Message: "done"}, w.Fence(ctx)
	})
	first := make(chan error)
	go func() {
		_, err := execute(t, y.service.RunOne, callOf(o, bringup.ConfigureStorage, 1))
		first <- err
	}()
	<-asleep
	turn, err := execute(t, y.service.RunOne, callOf(o, bringup.ConfigureStorage, 1))
	if err != nil || turn.Stage != bringup.ApplyRoCEPhase2 {
		t.Errorf("the second: %+v %v", turn, err)
	}
	close(wake)
	if err := <-first; fault.CodeOf(err) != durable.CodeSuperseded || fault.CodeOf(fence) != durable.CodeSuperseded ||
		fault.CodeOf(save) != durable.CodeSuperseded {
		t.Errorf("the first: %v, fence %v, save %v", err, fence, save)
	}
	l := y.ledger(t, o.ID)
	if now := y.read(t, o.ID); now.Facts.BootDisk != "of the second" ||
		!slices.Equal(l[1:], []string{"configure_storage/1:started", "configure_storage/1:succeeded"}) {
		t.Errorf("%+v, ledger %q", now, l)
	}
}

// A worker dies in each stage, before it and after it: another one takes the
// stage up, the ledger tells one attempt, and the machine becomes a node.
func TestAWorkerThatDies(t *testing.T) {
	y := newYard(t)
	died := map[string]bool{}
	die := func(call durable.StageCall, when string) error {
		if key := call.Stage + when; !died[key] {
			died[key] = true
			return job.ErrKilled
		}
		return nil
	}
	y.mischief.before = func(call durable.StageCall) error { return die(call, "before") }
	y.mischief.after = func(call durable.StageCall, _ error) error { return die(call, "after") }
	o := y.request(t, 1)
	done := y.run(t, o.ID)
	if done.Status != job.Completed || len(died) != 2*len(mainStages()) {
		t.Fatalf("%+v after %d deaths", done, len(died))
	}
	var want []string
	for _, s := range mainStages() {
		want = append(want, s+"/1:started", s+"/1:succeeded")
	}
	if got := y.ledger(t, o.ID); !slices.Equal(got, want) {
		t.Errorf("ledger %q", got)
	}
}

// Mischief replaces outcomes: a stage that is not run, an answer that is lost.
func TestMischiefReplacesOutcomes(t *testing.T) {
	y := newYard(t)
	y.mischief.before = func(call durable.StageCall) error {
		if call.Stage == bringup.LoadSiteConfig && call.Attempt == 1 {
			return fault.New(fault.Unavailable, "maas_unavailable", "away")
		}
		return nil
	}
	y.mischief.after = func(call durable.StageCall, outcome error) error {
		if call.Stage == bringup.ConfigureStorage && call.Attempt == 1 && outcome == nil {
			return fault.New(fault.Unavailable, "maas_unavailable", "the answer was lost")
		}
		return nil
	}
	o := y.request(t, 1)
	done := y.run(t, o.ID)
	l := y.ledger(t, o.ID)
	want := []string{
		"load_site_config/1:started", "load_site_config/1:failed", "load_site_config/2:started",
		"load_site_config/2:succeeded",
	}
	if done.Status != job.Completed || !slices.Equal(l[:4], want) || !slices.Contains(l, "configure_storage/1:failed") ||
		!slices.Contains(l, "configure_storage/2:succeeded") {
		t.Errorf("%s %q", done.Status, l)
	}
	if n := len(y.script.called()); n != len(mainStages())+1 {
		t.Errorf("%d stages ran", n)
	}
}

// What the activity cannot explain is a failure of the stage, not a job that
// hangs.
func TestALostStageIsRecorded(t *testing.T) {
	y := newYard(t)
	for i, c := range []struct {
		loss   durable.StageLoss
		do     durable.TurnKind
		status job.Status
	}{
		{
			durable.StageLoss{Kind: fault.Internal, Code: "odd", Message: "odd"},
			durable.TurnPark,
			job.FailedManualIntervention,
		},
		{durable.StageLoss{Kind: fault.Unavailable, Code: "away", Message: "away"}, durable.TurnLater, job.Running},
	} {
		o := y.brought(t, i+1, job.FailedManualIntervention, bringup.ConfigureStorage)
		o, err := y.service.Act(y.ctx, o.ID, job.RetryStage, "because")
		if err != nil {
			t.Fatal(err)
		}
		turn, err := execute(t, y.service.LoseStage, callOf(o, bringup.ConfigureStorage, 1), c.loss)
		if now := y.read(t, o.ID); err != nil || turn.Do != c.do || now.Status != c.status {
			t.Errorf("%+v %v, %+v", turn, err, now)
		}
	}
}

// Temporal delivers an attempt again whose failure was recorded: it counts, so
// that a budget is one whatever happens to workers.
func TestAnAttemptThatFailedIsNotRunAgain(t *testing.T) {
	y := newYard(t)
	o := y.brought(t, 1, job.FailedManualIntervention, bringup.DeployViaMAAS)
	o, err := y.service.Act(y.ctx, o.ID, job.RetryStage, "because")
	if err != nil {
		t.Fatal(err)
	}
	y.script.fails(100, bringup.DeployViaMAAS, failure(bringup.UpstreamTransient))
	call := callOf(o, bringup.DeployViaMAAS, 1)
	if turn, err := execute(t, y.service.RunStage, call); err != nil || turn.Do != durable.TurnLater || turn.Attempt != 2 {
		t.Fatalf("%+v %v", turn, err)
	}
	for range 3 {
		if _, err := execute(t, y.service.RunStage, call); fault.CodeOf(err) != durable.CodeSuperseded {
			t.Errorf("delivered again: %v", err)
		}
	}
	if turn, err := execute(t, y.service.NextTurn, o.ID.String()); err != nil || turn.Attempt != 2 ||
		len(y.script.called()) != 1 {
		t.Errorf("%+v %v after %q", turn, err, y.script.called())
	}
}

// A stage that no worker survives is parked in the end, not tried for ever.
func TestAnAttemptIsNotTakenUpForEver(t *testing.T) {
	y := newYard(t)
	y.mischief.before = func(durable.StageCall) error { return job.ErrKilled }
	o := y.brought(t, 1, job.FailedManualIntervention, bringup.DeployViaMAAS)
	o, err := y.service.Act(y.ctx, o.ID, job.RetryStage, "because")
	if err != nil {
		t.Fatal(err)
	}
	deaths := 0
	for {
		turn, err := execute(t, y.service.RunStage, callOf(o, bringup.DeployViaMAAS, 1))
		if err == nil && turn.Do == durable.TurnPark {
			break
		}
		if deaths++; err == nil || deaths > 1000 {
			t.Fatalf("%+v %v after %d deaths", turn, err, deaths)
		}
	}
	parked := y.read(t, o.ID)
	if parked.Status != job.FailedManualIntervention || parked.ErrorCode != "stage_lost" ||
		onboarding.Recommend(parked)[0].Action != job.RetryStage {
		t.Errorf("after %d deaths: %s %s, %v", deaths, parked.Status, parked.ErrorCode, onboarding.Recommend(parked))
	}
}

// Two onboardings never have one machine, whatever led them to it.
func TestAMachineHasOneOnboarding(t *testing.T) {
	y := newYard(t)
	find := func(ctx context.Context, w *bringup.Work, _ int) (job.Result, error) {
		w.SystemID = "abc123"
		return job.Result{Message: "found"}, w.Save(ctx)
	}
	y.script.on(bringup.CreateOrFindInMAAS, find)
	y.script.fails(100, bringup.CommissionNode,
		job.Failure{Class: bringup.HardwareMismatch, Code: job.CodeNamed("made_up"), Final: true})
	first := y.run(t, y.request(t, 1).ID)
	for name, stage := range map[string]func(context.Context, *bringup.Work, int) (job.Result, error){
		"saved": find,
		"found at the end": func(_ context.Context, w *bringup.Work, _ int) (job.Result, error) {
			w.SystemID = "abc123"
			return job.Result{}, nil
		},
	} {
		y.script.on(bringup.CreateOrFindInMAAS, stage)
		o := y.request(t, 2)
		second := y.run(t, o.ID)
		if first.SystemID != "abc123" || second.Status != job.FailedManualIntervention ||
			second.ErrorCode != "machine_claimed" || second.SystemID != "" {
			t.Errorf("%s: %s has %q; the second is %s by %s with %q", name, first.Hostname, first.SystemID, second.Status,
				second.ErrorCode, second.SystemID)
		}
		y.run(t, o.ID, y.act(t, o.ID, job.Cancel))
	}
}
