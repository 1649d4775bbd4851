package onboarding_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/testsuite"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/durable"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/job"
	"gpuaas/controlplane/internal/work/onboarding"
)

// brought is an onboarding that is in a status, as the database would have it.
func (y *yard) brought(tb testing.TB, number int, status durable.JobStatus, stage string) onboarding.Onboarding {
	tb.Helper()
	o := y.request(tb, number)
	var parked, completed *time.Time
	now := time.Now()
	if s, _ := durable.JobLifecycle.State(status); s.Terminal {
		completed = &now
	}
	class, code := "", ""
	if status == durable.JobFailedRetryable || status == durable.JobFailedManualIntervention {
		parked, class, code = &now, "bmc_power_failure", "made_up"
	}
	y.exec(tb, `UPDATE node_onboardings SET status = $2, current_stage = $3, parked_at = $4, completed_at = $5, failure_class = $6, error_code = $7,
		current_attempt = 1, stage_started_at = clock_timestamp() WHERE id = $1`, o.ID, string(status), stage, parked, completed, class, code)
	return y.read(tb, o.ID)
}

// legal is the whole table of which action is possible in which status, and
// where it leads from the stage wait_for_deployed.
var legal = map[durable.JobStatus]map[durable.JobEvent]struct {
	status durable.JobStatus
	stage  string
}{
	durable.JobPending: {durable.JobCancel: {durable.JobCancelled, bringup.WaitForDeployed}},
	durable.JobRunning: {
		durable.JobCancel: {durable.JobCompensating, job.StageCompensate}, durable.JobMarkManual: {durable.JobFailedManualIntervention, bringup.WaitForDeployed},
	},
	durable.JobFailedRetryable: {
		durable.JobRetryStage: {durable.JobRunning, bringup.WaitForDeployed}, durable.JobResume: {durable.JobRunning, bringup.RenderCloudInit},
		durable.JobRerun: {durable.JobRunning, bringup.LoadSiteConfig}, durable.JobRestartClean: {durable.JobCompensating, job.StageCompensate},
		durable.JobAdoptObserved: {durable.JobRunning, job.StageAdopt}, durable.JobCancel: {durable.JobCompensating, job.StageCompensate},
		durable.JobMarkManual: {durable.JobFailedManualIntervention, bringup.WaitForDeployed},
	},
	durable.JobFailedManualIntervention: {
		durable.JobRetryStage: {durable.JobRunning, bringup.WaitForDeployed}, durable.JobResume: {durable.JobRunning, bringup.RenderCloudInit},
		durable.JobRerun: {durable.JobRunning, bringup.LoadSiteConfig}, durable.JobRestartClean: {durable.JobCompensating, job.StageCompensate},
		durable.JobAdoptObserved: {durable.JobRunning, job.StageAdopt}, durable.JobCancel: {durable.JobCompensating, job.StageCompensate},
	},
	durable.JobCompensating: {}, durable.JobCompleted: {}, durable.JobCancelled: {}, durable.JobReconciled: {},
}

func TestEveryActionInEveryStatus(t *testing.T) {
	y := newYard(t, func(s *site.SettingsChange) { most := int32(1000); s.MaxParallel = &most })
	number := 0
	for _, state := range durable.JobLifecycle.States {
		for _, action := range job.Actions {
			number++
			before := y.brought(t, number, state.Name, bringup.WaitForDeployed)
			after, err := y.service.Act(y.ctx, before.ID, action, "because")
			to, allowed := legal[state.Name][action]
			name := string(state.Name) + " " + string(action)
			if !allowed {
				repeated := state.Name == durable.JobCancelled && action == durable.JobCancel
				f, _ := fault.As(err)
				if !repeated && (fault.KindOf(err) != fault.Conflict || f.Code != "action_not_allowed" || f.Remedy == "") {
					t.Errorf("%s: %v", name, err)
				}
				for possible := range legal[state.Name] {
					if !strings.Contains(f.Remedy, string(possible)) {
						t.Errorf("%s: %s is not named in %q", name, possible, f.Remedy)
					}
				}
				if now := y.read(t, before.ID); now.Epoch != before.Epoch || now.Status != before.Status {
					t.Errorf("%s changed it: %+v", name, now)
				}
				continue
			}
			y.acted(t, name, before, after, err, action, to.status, to.stage)
		}
	}
}

// acted holds an action against what it must have done.
func (y *yard) acted(t *testing.T, name string, before, after onboarding.Onboarding, err error, action durable.JobEvent, status durable.JobStatus, stage string) {
	t.Helper()
	if err != nil || after.Status != status || after.Epoch != before.Epoch+1 || after.Attempt != 0 || after.StageStartedAt != nil {
		t.Errorf("%s: %+v, %v", name, after, err)
	}
	if s, known := onboarding.StageOf(stage); !known || !s.Pseudo && after.Stage != stage {
		t.Errorf("%s leads to %s, not %s", name, after.Stage, stage)
	}
	if status == durable.JobRunning && (after.ErrorCode != "" || after.FailureClass != "" || after.ParkedAt != nil) {
		t.Errorf("%s: the error stayed: %+v", name, after)
	}
	var raw map[string]any
	var body json.RawMessage
	if err := y.owner.QueryRow(y.ctx, `SELECT metadata FROM audit_logs WHERE target_id = $1 AND action = $2 AND actor_id = 'operator-1'
		AND actor_role = 'platform_admin' AND reason = 'because' AND correlation_id = 'corr-1'`, before.ID.String(), "onboarding."+string(action)).Scan(&body); err != nil {
		t.Fatalf("%s: audit entry: %v", name, err)
	}
	if err := json.Unmarshal(body, &raw); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		"prior_status": string(before.Status), "prior_stage": before.Stage, "target_status": string(status), "target_stage": stage,
		"action": string(action), "workflow_id": before.WorkflowID,
	} {
		if raw[key] != want {
			t.Errorf("%s: audit says %s=%v, want %s", name, key, raw[key], want)
		}
	}
	if n := y.count(t, `SELECT count(*) FROM outbox_events WHERE event_type = 'workflow.signal' AND aggregate_id = $1 AND envelope->>'name' = 'act'`, before.WorkflowID); n != 1 {
		t.Errorf("%s: %d signals", name, n)
	}
	if n := y.count(t, `SELECT count(*) FROM node_onboarding_events WHERE onboarding_id = $1 AND status = 'action' AND message = 'because' AND details->>'actor' = 'operator-1'`, before.ID); n != 1 {
		t.Errorf("%s: %d entries of the ledger", name, n)
	}
	again, err := y.service.Act(y.ctx, before.ID, action, "because")
	if err != nil || again.Epoch != after.Epoch {
		t.Errorf("%s again: %+v, %v", name, again, err)
	}
}

func TestAnActionNeedsAReason(t *testing.T) {
	y := newYard(t)
	o := y.request(t, 1)
	if _, err := y.service.Act(y.ctx, o.ID, durable.JobCancel, "  "); fault.CodeOf(err) != "reason_missing" {
		t.Errorf("%v", err)
	}
	if _, err := y.service.Act(y.ctx, id.New[id.Onboarding](), durable.JobCancel, "because"); fault.KindOf(err) != fault.NotFound {
		t.Errorf("%v", err)
	}
}

// Every parked onboarding has a recommendation, and every status that is not
// terminal or being undone has a legal action.
func TestEveryEndOffersAWayOut(t *testing.T) {
	for _, class := range durable.FailureClasses {
		for _, s := range onboarding.Stages() {
			o := onboarding.Onboarding{Job: job.Job{Status: durable.JobFailedManualIntervention, Stage: s.Name, FailureClass: class}}
			advice := onboarding.Recommend(o)
			if len(advice) != 6 {
				t.Errorf("%s in %s: %v", class, s.Name, advice)
			}
			for _, a := range advice {
				if a.Does == "" || a.Safety == "" {
					t.Errorf("%s in %s: %+v", class, s.Name, a)
				}
			}
		}
	}
	now := time.Now()
	deployed := onboarding.Onboarding{Job: job.Job{Status: durable.JobFailedManualIntervention, Stage: bringup.WaitForAgentEnrollment, Facts: bringup.Facts{DeployedAt: &now}}}
	for _, a := range onboarding.Recommend(deployed) {
		if (a.Safety == job.DestroysData) != (a.Action == durable.JobRestartClean) {
			t.Errorf("%+v", a)
		}
	}
}

// Where the code of a failure says more than its class, the recommendation
// follows the code.
func TestRecommendationsByCode(t *testing.T) {
	for code, want := range map[string]durable.JobEvent{
		"machine_in_use": durable.JobRerun, "nothing_to_adopt": durable.JobRerun, "first_boot_missing": durable.JobResume,
		"machine_hollow": durable.JobRestartClean, "operator_marked": durable.JobResume, "anything_else": durable.JobAdoptObserved,
		"hw_sync_disabled": durable.JobRestartClean,
	} {
		o := onboarding.Onboarding{Job: job.Job{
			Status: durable.JobFailedManualIntervention, Stage: bringup.DeployViaMAAS, FailureClass: durable.StateAmbiguity, ErrorCode: code,
			Observed: bringup.Observed{Status: "Deployed"},
		}}
		if got := onboarding.Recommend(o)[0].Action; got != want {
			t.Errorf("%s: %s, want %s", code, got, want)
		}
	}
	for _, seen := range []string{"", "absent", "New", "Broken"} {
		o := onboarding.Onboarding{Job: job.Job{Status: durable.JobFailedManualIntervention, Stage: bringup.DeployViaMAAS, FailureClass: durable.StateAmbiguity, Observed: bringup.Observed{Status: seen}}}
		if got := onboarding.Recommend(o)[0].Action; got != durable.JobRerun {
			t.Errorf("%q: %s", seen, got)
		}
	}
}

func TestRetryResumeAndRerunGoOnWhereTheyShould(t *testing.T) {
	for action, from := range map[durable.JobEvent]string{
		durable.JobRetryStage: bringup.WaitForReady, durable.JobResume: bringup.CommissionNode, durable.JobRerun: bringup.LoadSiteConfig,
	} {
		t.Run(string(action), func(t *testing.T) {
			y := newYard(t)
			y.script.fails(1, bringup.WaitForReady, failure(durable.HardwareMismatch))
			o := y.request(t, 1)
			done := y.run(t, o.ID, func(env *testsuite.TestWorkflowEnvironment) {
				y.script.forget()
				y.script.on(bringup.WaitForReady, nil)
				y.act(t, o.ID, action)(env)
			})
			at := slices.Index(mainStages(), from)
			if got := y.script.called(); done.Status != durable.JobCompleted || done.Epoch != 2 || !slices.Equal(got, mainStages()[at:]) {
				t.Errorf("%s, epoch %d, after %q", done.Status, done.Epoch, got)
			}
		})
	}
}

func TestCancelUndoesAndEnds(t *testing.T) {
	y := newYard(t)
	y.script.fails(always, bringup.DeployViaMAAS, failure(durable.StateAmbiguity))
	y.script.on(job.StageCompensate, func(ctx context.Context, w *bringup.Work, _ int) (bringup.Result, error) {
		if w.Reset || !w.Facts.NodeCreated {
			t.Errorf("%+v", w)
		}
		w.Facts.Left = []string{"the machine stays in MAAS"}
		return bringup.Result{}, y.abandon(ctx, w.Node)
	})
	o := y.request(t, 1)
	done := y.run(t, o.ID, y.act(t, o.ID, durable.JobCancel))
	if done.Status != durable.JobCancelled || done.CompletedAt == nil || !slices.Equal(done.Facts.Left, []string{"the machine stays in MAAS"}) {
		t.Errorf("%+v", done)
	}
	l := y.ledger(t, o.ID)
	if want := []string{"compensate/0:action", "compensate/1:started", "compensate/1:compensated"}; !slices.Equal(l[len(l)-3:], want) {
		t.Errorf("ledger %q", l)
	}
	if n := y.told(t, o.ID, "node.onboarding.cancelled"); n != 1 {
		t.Errorf("told %d times", n)
	}
	if again := y.request(t, 1); again.ID == o.ID { // the machine is free again
		t.Errorf("%+v", again)
	}
}

func TestCancelBeforeAWorkerTookItUp(t *testing.T) {
	y := newYard(t)
	o := y.request(t, 1)
	if now, err := y.service.Act(y.ctx, o.ID, durable.JobCancel, "changed my mind"); err != nil || now.Status != durable.JobCancelled {
		t.Fatalf("%+v %v", now, err)
	}
	if done := y.run(t, o.ID); done.Status != durable.JobCancelled || len(y.script.called()) != 0 {
		t.Errorf("%+v after %q", done, y.script.called())
	}
}

// Undoing that fails is parked, and can only be repeated or overridden.
func TestUndoingThatFailsIsParked(t *testing.T) {
	for _, action := range []durable.JobEvent{durable.JobCancel, durable.JobRestartClean} {
		t.Run(string(action), func(t *testing.T) {
			y := newYard(t)
			y.script.fails(1, bringup.DeployViaMAAS, bringup.Failure{Class: durable.StateAmbiguity, Code: "made_up", Final: true})
			y.script.on(job.StageCompensate, func(_ context.Context, w *bringup.Work, n int) (bringup.Result, error) {
				if w.Reset != (action == durable.JobRestartClean) {
					t.Errorf("reset is %v", w.Reset)
				}
				if n <= 5 {
					return bringup.Result{}, fault.New(fault.Unavailable, "maas_unavailable", "away")
				}
				return bringup.Result{}, nil
			})
			o := y.request(t, 1)
			var blocked onboarding.Onboarding
			done := y.run(t, o.ID, y.act(t, o.ID, action), func(env *testsuite.TestWorkflowEnvironment) {
				blocked = y.read(t, o.ID)
				y.act(t, o.ID, onboarding.Recommend(blocked)[0].Action)(env)
			})
			if blocked.Status != durable.JobFailedManualIntervention || blocked.ErrorCode != "maas_unavailable" || onboarding.Recommend(blocked)[0].Action != action ||
				slices.Contains(onboarding.LegalActions(blocked), durable.JobRetryStage) || !slices.Contains(onboarding.LegalActions(blocked), durable.JobRerun) {
				t.Errorf("%+v; %v", blocked, onboarding.LegalActions(blocked))
			}
			want := map[durable.JobEvent]durable.JobStatus{durable.JobCancel: durable.JobCancelled, durable.JobRestartClean: durable.JobCompleted}[action]
			if done.Status != want {
				t.Errorf("%+v", done)
			}
		})
	}
}

func TestRestartCleanStartsFromNothing(t *testing.T) {
	y := newYard(t)
	y.script.fails(1, bringup.EnsureHardwareSyncConfigured, failure(durable.PostDeployConnectivityFailure))
	y.script.on(job.StageCompensate, func(ctx context.Context, w *bringup.Work, _ int) (bringup.Result, error) {
		return bringup.Result{}, y.abandon(ctx, w.Node)
	})
	var second bringup.Work
	y.script.on(bringup.LoadSiteConfig, func(_ context.Context, w *bringup.Work, _ int) (bringup.Result, error) {
		second = *w
		return bringup.Result{}, nil
	})
	o := y.request(t, 1)
	done := y.run(t, o.ID, y.act(t, o.ID, durable.JobRestartClean))
	if second.SystemID != "" || second.Facts.NodeCreated || second.Facts.DeployedAt != nil || second.Node == o.Node || second.Epoch != 2 {
		t.Errorf("began again with %+v", second)
	}
	if done.Status != durable.JobCompleted || done.Node == o.Node || done.Epoch != 2 {
		t.Errorf("%+v", done)
	}
	if n, err := node.Get(y.ctx, y.db, done.Node); err != nil || n.Status != node.Active {
		t.Errorf("%+v %v", n, err)
	}
}

func TestAdoptGoesOnWhereTheMachineIs(t *testing.T) {
	y := newYard(t)
	y.script.on(bringup.WaitForAgentEnrollment, func(ctx context.Context, w *bringup.Work, n int) (bringup.Result, error) {
		if n == 1 {
			f := failure(durable.AgentEnrollmentFailure)
			return bringup.Result{}, &f
		}
		return y.script.well(ctx, bringup.WaitForAgentEnrollment, w)
	})
	o := y.request(t, 1)
	done := y.run(t, o.ID, y.act(t, o.ID, durable.JobAdoptObserved))
	if done.Status != durable.JobReconciled || !done.Adopted || done.Action != "" {
		t.Errorf("%+v", done)
	}
	if n, err := node.Get(y.ctx, y.db, o.Node); err != nil || n.Status != node.Active {
		t.Errorf("%+v %v", n, err)
	}
}

// What somebody else installed does not count as installed by the onboarding,
// however often that tried.
func TestAttackAnAdoptedInstallationIsNotOurs(t *testing.T) {
	for _, adopted := range []bool{false, true} {
		y := newYard(t)
		y.script.on(bringup.WaitForAgentEnrollment, func(ctx context.Context, w *bringup.Work, _ int) (bringup.Result, error) {
			w.Facts.Deploys, w.Facts.Adopted = 1, adopted
			return y.script.well(ctx, bringup.WaitForAgentEnrollment, w)
		})
		o := y.request(t, 1)
		done := y.run(t, o.ID)
		if n, err := node.Get(y.ctx, y.db, o.Node); err != nil || n.Status != node.Active || (n.Installation.MadeAt == nil) != adopted {
			t.Errorf("adopted %t: %s at %s (%s: %s), %+v, %v", adopted, done.Status, done.Stage, done.ErrorCode, done.ErrorMessage, n.Installation, err)
		}
	}
}

// An adoption that finds nothing parks the job where it was.
func TestAdoptThatFindsNothing(t *testing.T) {
	y := newYard(t)
	y.script.fails(1, bringup.WaitForReady, failure(durable.StateAmbiguity))
	y.script.on(job.StageAdopt, func(context.Context, *bringup.Work, int) (bringup.Result, error) {
		return bringup.Result{}, &bringup.Failure{Class: durable.StateAmbiguity, Code: "nothing_to_adopt", Message: "not ours", Final: true}
	})
	o := y.request(t, 1)
	var parked onboarding.Onboarding
	done := y.run(t, o.ID, y.act(t, o.ID, durable.JobAdoptObserved), func(env *testsuite.TestWorkflowEnvironment) {
		parked = y.read(t, o.ID)
		y.act(t, o.ID, durable.JobRetryStage)(env)
	})
	if parked.Stage != bringup.WaitForReady || parked.ErrorCode != "nothing_to_adopt" || parked.Adopted || onboarding.Recommend(parked)[0].Action != durable.JobRerun {
		t.Errorf("%+v, %v", parked, onboarding.Recommend(parked)[0])
	}
	if done.Status != durable.JobCompleted {
		t.Errorf("%+v", done)
	}
}

// A mark stops what runs: the stage that was at work can record nothing.
func TestAMarkSupersedesWhatRuns(t *testing.T) {
	y := newYard(t)
	o := y.request(t, 1)
	var fence, save error
	y.script.on(bringup.ConfigureStorage, func(ctx context.Context, w *bringup.Work, n int) (bringup.Result, error) {
		if n > 1 {
			return bringup.Result{}, nil
		}
		if _, err := y.service.Act(y.ctx, o.ID, durable.JobMarkManual, "somebody works on it"); err != nil {
			t.Error(err)
		}
		w.Facts.BootDisk = "never to be seen"
		fence, save = w.Fence(ctx), w.Save(ctx)
		return bringup.Result{}, nil // the signal is late: the workflow learns of it here
	})
	var parked onboarding.Onboarding
	done := y.run(t, o.ID, func(env *testsuite.TestWorkflowEnvironment) {
		parked = y.read(t, o.ID)
		y.act(t, o.ID, onboarding.Recommend(parked)[0].Action)(env)
	})
	if fault.CodeOf(fence) != durable.CodeSuperseded || fault.CodeOf(save) != durable.CodeSuperseded {
		t.Errorf("fence %v, save %v", fence, save)
	}
	if parked.Status != durable.JobFailedManualIntervention || parked.ErrorCode != "operator_marked" || parked.FailureClass != durable.StateAmbiguity ||
		parked.Stage != bringup.ConfigureStorage || parked.Facts.BootDisk != "" {
		t.Errorf("%+v", parked)
	}
	if done.Status != durable.JobCompleted || done.Facts.BootDisk != "" {
		t.Errorf("%+v", done)
	}
}
