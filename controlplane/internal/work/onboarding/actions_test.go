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
func (y *yard) brought(tb testing.TB, number int, status job.Status, stage string) onboarding.Onboarding {
	tb.Helper()
	o := y.request(tb, number)
	var parked, completed *time.Time
	now := time.Now()
	if s, _ := job.Parking.Table.State(status); s.Terminal {
		completed = &now
	}
	class, code := "", ""
	if status == job.FailedRetryable || status == job.FailedManualIntervention {
		parked, class, code = &now, "bmc_power_failure", "made_up"
	}
	y.exec(tb, `UPDATE node_onboardings SET status = $2, current_stage = $3, parked_at = $4, completed_at = $5, failure_class = $6, error_code = $7,
		current_attempt = 1, stage_started_at = clock_timestamp() WHERE id = $1`, o.ID, string(status), stage, parked, completed, class, code)
	return y.read(tb, o.ID)
}

// legal is the whole table of which action is possible in which status, and
// where it leads from the stage wait_for_deployed.
var legal = map[job.Status]map[job.Trigger]struct {
	status job.Status
	stage  string
}{
	job.Pending: {job.Cancel: {job.Cancelled, bringup.WaitForDeployed}},
	job.Running: {
		job.Cancel:     {job.Compensating, job.StageCompensate},
		job.MarkManual: {job.FailedManualIntervention, bringup.WaitForDeployed},
	},
	job.FailedRetryable: {
		job.RetryStage: {job.Running, bringup.WaitForDeployed}, job.Resume: {job.Running, bringup.RenderCloudInit},
		job.Rerun: {job.Running, bringup.LoadSiteConfig}, job.RestartClean: {job.Compensating, job.StageCompensate},
		job.AdoptObserved: {job.Running, job.StageAdopt}, job.Cancel: {job.Compensating, job.StageCompensate},
		job.MarkManual: {job.FailedManualIntervention, bringup.WaitForDeployed},
	},
	job.FailedManualIntervention: {
		job.RetryStage: {job.Running, bringup.WaitForDeployed}, job.Resume: {job.Running, bringup.RenderCloudInit},
		job.Rerun: {job.Running, bringup.LoadSiteConfig}, job.RestartClean: {job.Compensating, job.StageCompensate},
		job.AdoptObserved: {job.Running, job.StageAdopt}, job.Cancel: {job.Compensating, job.StageCompensate},
	},
	job.Compensating: {}, job.Completed: {}, job.Cancelled: {}, job.Reconciled: {},
}

func TestEveryActionInEveryStatus(t *testing.T) {
	y := newYard(t, func(s *site.SettingsChange) { most := int32(1000); s.MaxParallel = &most })
	number := 0
	for _, state := range job.Parking.Table.States {
		for _, action := range job.Parking.AllActions() {
			number++
			before := y.brought(t, number, state.Name, bringup.WaitForDeployed)
			after, err := y.service.Act(y.ctx, before.ID, action, "because")
			to, allowed := legal[state.Name][action]
			name := string(state.Name) + " " + string(action)
			if !allowed {
				repeated := state.Name == job.Cancelled && action == job.Cancel
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
func (y *yard) acted(t *testing.T, name string, before, after onboarding.Onboarding, err error, action job.Trigger,
	status job.Status, stage string,
) {
	t.Helper()
	if err != nil || after.Status != status || after.Epoch != before.Epoch+1 || after.Attempt != 0 ||
		after.StageStartedAt != nil {
		t.Errorf("%s: %+v, %v", name, after, err)
	}
	if s, known := onboarding.StageOf(stage); !known || !s.Pseudo && after.Stage != stage {
		t.Errorf("%s leads to %s, not %s", name, after.Stage, stage)
	}
	if status == job.Running && (after.ErrorCode != "" || after.FailureClass != "" || after.ParkedAt != nil) {
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
		"prior_status": string(before.Status), "prior_stage": before.Stage, "target_status": string(status),
		"target_stage": stage,
		"action":       string(action), "workflow_id": before.WorkflowID,
	} {
		if raw[key] != want {
			t.Errorf("%s: audit says %s=%v, want %s", name, key, raw[key], want)
		}
	}
	if n := y.count(t, `SELECT count(*) FROM outbox_events WHERE event_type = 'workflow.signal' AND aggregate_id = $1 AND envelope->>'name' = 'act'`, before.WorkflowID); n != 1 {
		t.Errorf("%s: %d signals", name, n)
	}
	if n := y.count(t, `SELECT count(*) FROM job_events WHERE job_id = $1 AND status = 'action' AND message = 'because' AND details->>'actor' = 'operator-1'`, before.ID); n != 1 {
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
	if _, err := y.service.Act(y.ctx, o.ID, job.Cancel, "  "); fault.CodeOf(err) != "reason_missing" {
		t.Errorf("%v", err)
	}
	if _, err := y.service.Act(y.ctx, id.New[id.Onboarding](), job.Cancel,
		"because"); fault.KindOf(err) != fault.NotFound {
		t.Errorf("%v", err)
	}
}

// Every parked onboarding has a recommendation, and every status that is not
// terminal or being undone has a legal action.
func TestEveryEndOffersAWayOut(t *testing.T) {
	for _, class := range bringup.FailureClasses {
		for _, s := range onboarding.Stages() {
			o := onboarding.Onboarding{Job: job.Job{Status: job.FailedManualIntervention, Stage: s.Name, FailureClass: class}}
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
	deployed := onboarding.Onboarding{Job: job.Job{
		Status: job.FailedManualIntervention,
		Stage:  bringup.WaitForAgentEnrollment,
	}, Machine: bringup.Machine{Facts: bringup.Facts{DeployedAt: &now}}}
	for _, a := range onboarding.Recommend(deployed) {
		if (a.Safety == job.DestroysData) != (a.Action == job.RestartClean) {
			t.Errorf("%+v", a)
		}
	}
}

// Nothing that destroys data is offered before something safer, unless only that
// mends this very failure.
func TestRecommendedActionsAreOrderedSafestFirst(t *testing.T) {
	now := time.Now()
	for _, class := range bringup.FailureClasses {
		for _, s := range onboarding.Stages() {
			o := onboarding.Onboarding{
				Job:     job.Job{Status: job.FailedManualIntervention, Stage: s.Name, FailureClass: class},
				Machine: bringup.Machine{Facts: bringup.Facts{DeployedAt: &now}},
			}
			advice := onboarding.Recommend(o)
			if advice[0].Safety != job.Safe || advice[len(advice)-1].Safety != job.DestroysData {
				t.Errorf("%s in %s: %+v", class, s.Name, advice)
			}
		}
	}
}

// Where the code of a failure says more than its class, the recommendation
// follows the code.
func TestRecommendationsByCode(t *testing.T) {
	for code, want := range map[string]job.Trigger{
		"machine_in_use": job.Rerun, "nothing_to_adopt": job.Rerun, "first_boot_missing": job.Resume,
		"machine_hollow": job.RestartClean, "operator_marked": job.Resume, "anything_else": job.AdoptObserved,
		"hw_sync_disabled": job.RestartClean,
	} {
		o := onboarding.Onboarding{Job: job.Job{
			Status: job.FailedManualIntervention, Stage: bringup.DeployViaMAAS, FailureClass: bringup.StateAmbiguity,
			ErrorCode: code,
		}, Machine: bringup.Machine{Observed: bringup.Observed{Status: "Deployed"}}}
		if got := onboarding.Recommend(o)[0].Action; got != want {
			t.Errorf("%s: %s, want %s", code, got, want)
		}
	}
	for _, seen := range []string{"", "absent", "New", "Broken"} {
		o := onboarding.Onboarding{Job: job.Job{
			Status: job.FailedManualIntervention, Stage: bringup.DeployViaMAAS,
			FailureClass: bringup.StateAmbiguity,
		}, Machine: bringup.Machine{Observed: bringup.Observed{Status: seen}}}
		if got := onboarding.Recommend(o)[0].Action; got != job.Rerun {
			t.Errorf("%q: %s", seen, got)
		}
	}
}

func TestRetryResumeAndRerunGoOnWhereTheyShould(t *testing.T) {
	for action, from := range map[job.Trigger]string{
		job.RetryStage: bringup.WaitForReady, job.Resume: bringup.CommissionNode, job.Rerun: bringup.LoadSiteConfig,
	} {
		t.Run(string(action), func(t *testing.T) {
			y := newYard(t)
			y.script.fails(1, bringup.WaitForReady, failure(bringup.HardwareMismatch))
			o := y.request(t, 1)
			done := y.run(t, o.ID, func(env *testsuite.TestWorkflowEnvironment) {
				y.script.forget()
				y.script.on(bringup.WaitForReady, nil)
				y.act(t, o.ID, action)(env)
			})
			at := slices.Index(mainStages(), from)
			if got := y.script.called(); done.Status != job.Completed || done.Epoch != 2 ||
				!slices.Equal(got, mainStages()[at:]) {
				t.Errorf("%s, epoch %d, after %q", done.Status, done.Epoch, got)
			}
		})
	}
}

func TestCancelUndoesAndEnds(t *testing.T) {
	y := newYard(t)
	y.script.fails(always, bringup.DeployViaMAAS, failure(bringup.StateAmbiguity))
	y.script.on(job.StageCompensate, func(ctx context.Context, w *bringup.Work, _ int) (job.Result, error) {
		if w.Reset || !w.Facts.NodeCreated {
			t.Errorf("%+v", w)
		}
		w.Facts.Left = []string{"the machine stays in MAAS"}
		return job.Result{}, y.abandon(ctx, w.Node)
	})
	o := y.request(t, 1)
	done := y.run(t, o.ID, y.act(t, o.ID, job.Cancel))
	if done.Status != job.Cancelled || done.CompletedAt == nil ||
		!slices.Equal(done.Facts.Left, []string{"the machine stays in MAAS"}) {
		t.Errorf("%+v", done)
	}
	l := y.ledger(t, o.ID)
	if want := []string{
		"compensate/0:action", "compensate/1:started",
		"compensate/1:compensated",
	}; !slices.Equal(l[len(l)-3:], want) {
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
	if now, err := y.service.Act(y.ctx, o.ID, job.Cancel, "changed my mind"); err != nil || now.Status != job.Cancelled {
		t.Fatalf("%+v %v", now, err)
	}
	if done := y.run(t, o.ID); done.Status != job.Cancelled || len(y.script.called()) != 0 {
		t.Errorf("%+v after %q", done, y.script.called())
	}
}

// Undoing that fails is parked, and can only be repeated or overridden.
func TestUndoingThatFailsIsParked(t *testing.T) {
	for _, action := range []job.Trigger{job.Cancel, job.RestartClean} {
		t.Run(string(action), func(t *testing.T) {
			y := newYard(t)
			y.script.fails(1, bringup.DeployViaMAAS,
				job.Failure{Class: bringup.StateAmbiguity, Code: job.CodeNamed("made_up"), Final: true})
			y.script.on(job.StageCompensate, func(_ context.Context, w *bringup.Work, n int) (job.Result, error) {
				if w.Reset != (action == job.RestartClean) {
					t.Errorf("reset is %v", w.Reset)
				}
				if n <= 5 {
					return job.Result{}, fault.New(fault.Unavailable, "maas_unavailable", "away")
				}
				return job.Result{}, nil
			})
			o := y.request(t, 1)
			var blocked onboarding.Onboarding
			done := y.run(t, o.ID, y.act(t, o.ID, action), func(env *testsuite.TestWorkflowEnvironment) {
				blocked = y.read(t, o.ID)
				y.act(t, o.ID, onboarding.Recommend(blocked)[0].Action)(env)
			})
			if blocked.Status != job.FailedManualIntervention || blocked.ErrorCode != "maas_unavailable" ||
				onboarding.Recommend(blocked)[0].Action != action ||
				slices.Contains(onboarding.LegalActions(blocked), job.RetryStage) ||
				!slices.Contains(onboarding.LegalActions(blocked), job.Rerun) {
				t.Errorf("%+v; %v", blocked, onboarding.LegalActions(blocked))
			}
			want := map[job.Trigger]job.Status{job.Cancel: job.Cancelled, job.RestartClean: job.Completed}[action]
			if done.Status != want {
				t.Errorf("%+v", done)
			}
		})
	}
}

func TestRestartCleanStartsFromNothing(t *testing.T) {
	y := newYard(t)
	y.script.fails(1, bringup.EnsureHardwareSyncConfigured, failure(bringup.PostDeployConnectivityFailure))
	y.script.on(job.StageCompensate, func(ctx context.Context, w *bringup.Work, _ int) (job.Result, error) {
		return job.Result{}, y.abandon(ctx, w.Node)
	})
	var second bringup.Work
	y.script.on(bringup.LoadSiteConfig, func(_ context.Context, w *bringup.Work, _ int) (job.Result, error) {
		second = *w
		return job.Result{}, nil
	})
	o := y.request(t, 1)
	done := y.run(t, o.ID, y.act(t, o.ID, job.RestartClean))
	if second.SystemID != "" || second.Facts.NodeCreated || second.Facts.DeployedAt != nil || second.Node == o.Node ||
		second.Epoch != 2 {
		t.Errorf("began again with %+v", second)
	}
	if done.Status != job.Completed || done.Node == o.Node || done.Epoch != 2 {
		t.Errorf("%+v", done)
	}
	if n, err := node.Get(y.ctx, y.db, done.Node); err != nil || n.Status != node.Active {
		t.Errorf("%+v %v", n, err)
	}
}

func TestAdoptGoesOnWhereTheMachineIs(t *testing.T) {
	y := newYard(t)
	y.script.on(bringup.WaitForAgentEnrollment, func(ctx context.Context, w *bringup.Work, n int) (job.Result, error) {
		if n == 1 {
			f := failure(bringup.AgentEnrollmentFailure)
			return job.Result{}, &f
		}
		return y.script.well(ctx, bringup.WaitForAgentEnrollment, w)
	})
	o := y.request(t, 1)
	done := y.run(t, o.ID, y.act(t, o.ID, job.AdoptObserved))
	if done.Status != job.Reconciled || !done.Adopted || done.Action != "" {
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
		y.script.on(bringup.WaitForAgentEnrollment, func(ctx context.Context, w *bringup.Work, _ int) (job.Result, error) {
			w.Facts.Deploys, w.Facts.Adopted = 1, adopted
			return y.script.well(ctx, bringup.WaitForAgentEnrollment, w)
		})
		o := y.request(t, 1)
		done := y.run(t, o.ID)
		if n, err := node.Get(y.ctx, y.db, o.Node); err != nil || n.Status != node.Active ||
			(n.Installation.MadeAt == nil) != adopted {
			t.Errorf("adopted %t: %s at %s (%s: %s), %+v, %v", adopted, done.Status, done.Stage, done.ErrorCode,
				done.ErrorMessage, n.Installation, err)
		}
	}
}

// An adoption that finds nothing parks the job where it was.
func TestAdoptThatFindsNothing(t *testing.T) {
	y := newYard(t)
	y.script.fails(1, bringup.WaitForReady, failure(bringup.StateAmbiguity))
	y.script.on(job.StageAdopt, func(context.Context, *bringup.Work, int) (job.Result, error) {
		return job.Result{}, &job.Failure{
			Class: bringup.StateAmbiguity, Code: job.CodeNamed("nothing_to_adopt"),
			Message: "not ours", Final: true,
		}
	})
	o := y.request(t, 1)
	var parked onboarding.Onboarding
	done := y.run(t, o.ID, y.act(t, o.ID, job.AdoptObserved), func(env *testsuite.TestWorkflowEnvironment) {
		parked = y.read(t, o.ID)
		y.act(t, o.ID, job.RetryStage)(env)
	})
	if parked.Stage != bringup.WaitForReady || parked.ErrorCode != "nothing_to_adopt" || parked.Adopted ||
		onboarding.Recommend(parked)[0].Action != job.Rerun {
		t.Errorf("%+v, %v", parked, onboarding.Recommend(parked)[0])
	}
	if done.Status != job.Completed {
		t.Errorf("%+v", done)
	}
}

// A mark stops what runs: the stage that was at work can record nothing.
func TestAMarkSupersedesWhatRuns(t *testing.T) {
	y := newYard(t)
	o := y.request(t, 1)
	var fence, save error
	y.script.on(bringup.ConfigureStorage, func(ctx context.Context, w *bringup.Work, n int) (job.Result, error) {
		if n > 1 {
			return job.Result{}, nil
		}
		if _, err := y.service.Act(y.ctx, o.ID, job.MarkManual, "somebody works on it"); err != nil {
			t.Error(err)
		}
		w.Facts.BootDisk = "never to be seen"
		fence, save = w.Fence(ctx), w.Save(ctx)
		return job.Result{}, nil // the signal is late: the workflow learns of it here
	})
	var parked onboarding.Onboarding
	done := y.run(t, o.ID, func(env *testsuite.TestWorkflowEnvironment) {
		parked = y.read(t, o.ID)
		y.act(t, o.ID, onboarding.Recommend(parked)[0].Action)(env)
	})
	if fault.CodeOf(fence) != durable.CodeSuperseded || fault.CodeOf(save) != durable.CodeSuperseded {
		t.Errorf("fence %v, save %v", fence, save)
	}
	if parked.Status != job.FailedManualIntervention || parked.ErrorCode != "operator_marked" ||
		parked.FailureClass != bringup.StateAmbiguity ||
		parked.Stage != bringup.ConfigureStorage || parked.Facts.BootDisk != "" {
		t.Errorf("%+v", parked)
	}
	if done.Status != job.Completed || done.Facts.BootDisk != "" {
		t.Errorf("%+v", done)
	}
}
