package onboarding_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"go.temporal.io/sdk/testsuite"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/engine/durable"
	"gpuaas/controlplane/internal/fleet/binding"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/job"
	"gpuaas/controlplane/internal/work/onboarding"
)

// mainStages are the stages of a machine that nothing is wrong with.
func mainStages() []string {
	var out []string
	for _, s := range onboarding.Stages() {
		if !s.Detour {
			out = append(out, s.Name)
		}
	}
	return out
}

func TestAMachineBecomesANode(t *testing.T) {
	y := newYard(t)
	o := y.request(t, 1)
	if o.Status != job.Pending || o.AdmittedAt == nil || o.Stage != bringup.LoadSiteConfig ||
		o.RequestedBy != "operator-1" || o.CorrelationID != "corr-1" {
		t.Fatalf("%+v", o)
	}
	done := y.run(t, o.ID)
	if done.Status != job.Completed || done.CompletedAt == nil || done.StartedAt == nil || done.ErrorCode != "" ||
		done.WorkflowRunID == "" {
		t.Fatalf("%+v", done)
	}
	if got := y.script.called(); !slices.Equal(got, mainStages()) {
		t.Errorf("stages %q", got)
	}
	n, err := node.Get(y.ctx, y.db, o.Node)
	if err != nil || n.Status != node.Active || !n.Schedulable || n.Host != "10.20.0.1" {
		t.Errorf("node %+v, %v", n, err)
	}
	if bound := y.count(t, `SELECT count(*) FROM node_maas_state WHERE node_id = $1 AND maas_system_id = 'sys-c0001' AND ipmi_ip = '10.1.0.2' AND last_maas_status = 'Deployed'`, o.Node); bound != 1 {
		t.Errorf("bound %d times", bound)
	}
	var want []string
	for _, s := range mainStages() {
		want = append(want, s+"/1:started", s+"/1:succeeded")
	}
	if got := y.ledger(t, o.ID); !slices.Equal(got, want) {
		t.Errorf("ledger %q", got)
	}
	for event, times := range map[string]int{
		"node.onboarding.started": 1, "node.onboarding.stage": 13,
		"node.onboarding.completed": 1,
	} {
		if got := y.told(t, o.ID, event); got != times {
			t.Errorf("%s told %d times, want %d", event, got, times)
		}
	}
	if used, limit, err := y.service.Slots(y.ctx, y.site.ID); err != nil || used != 0 || limit != 20 {
		t.Errorf("%d of %d places, %v", used, limit, err)
	}
}

func TestARequestIsOneTransaction(t *testing.T) {
	y := newYard(t)
	o := y.request(t, 1)
	if n := y.count(t, `SELECT count(*) FROM audit_logs WHERE action = 'onboarding.request' AND target_id = $1 AND correlation_id = 'corr-1' AND actor_id = 'operator-1'`, o.ID.String()); n != 1 {
		t.Errorf("%d audit entries", n)
	}
	var input struct {
		Input onboarding.Input
		Marks map[string]string
	}
	var body json.RawMessage
	err := y.db.QueryRow(y.ctx, `SELECT envelope FROM outbox_events WHERE destination = 'temporal' AND event_type = 'MaasNodeOnboardWorkflow' AND aggregate_id = $1`, o.WorkflowID).Scan(&body)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(body, &input); err != nil || input.Input.ID != o.ID ||
		input.Marks[durable.MarkHostname] != "c0001" || input.Marks[durable.MarkSite] != y.site.ID.String() {
		t.Errorf("%s %v", body, err)
	}
}

// Every class of failure: how often it is tried, how the job is parked, what is
// recommended, and that the recommendation leads on.
func TestEveryClassOfFailure(t *testing.T) {
	for class, want := range map[job.FailureClass]struct {
		status job.Status
		first  job.Trigger
		tries  int // of a stage with one attempt
	}{
		bringup.InputConfigError:              {job.FailedManualIntervention, job.Rerun, 1},
		bringup.SiteCapabilityMissing:         {job.FailedManualIntervention, job.Resume, 1},
		bringup.UpstreamTransient:             {job.FailedRetryable, job.Resume, 5},
		bringup.BMCPowerFailure:               {job.FailedManualIntervention, job.RetryStage, 1},
		bringup.PXEDiscoveryFailure:           {job.FailedManualIntervention, job.Rerun, 1},
		bringup.HardwareMismatch:              {job.FailedManualIntervention, job.Rerun, 1},
		bringup.DeployInstallerFailure:        {job.FailedManualIntervention, job.Rerun, 1},
		bringup.DeployCloudInitFailure:        {job.FailedManualIntervention, job.Rerun, 1},
		bringup.PostDeployConnectivityFailure: {job.FailedManualIntervention, job.RetryStage, 1},
		bringup.HardwareSyncFailure:           {job.FailedManualIntervention, job.RetryStage, 1},
		bringup.AgentEnrollmentFailure:        {job.FailedManualIntervention, job.Resume, 1},
		bringup.StateAmbiguity:                {job.FailedManualIntervention, job.AdoptObserved, 1},
	} {
		t.Run(string(class), func(t *testing.T) {
			y := newYard(t)
			y.script.fails(want.tries, bringup.ConfigureStorage, failure(class))
			y.script.on(job.StageAdopt, func(context.Context, *bringup.Work, int) (job.Result, error) {
				return job.Result{Next: bringup.ConfigureStorage}, nil
			})
			o := y.request(t, 1)
			var parked onboarding.Onboarding
			done := y.run(t, o.ID, func(env *testsuite.TestWorkflowEnvironment) {
				parked = y.read(t, o.ID)
				y.act(t, o.ID, onboarding.Recommend(parked)[0].Action)(env)
			})
			if parked.Status != want.status || parked.FailureClass != class || parked.ErrorCode != "made_up" ||
				parked.ErrorMessage != "it does not work" ||
				parked.ErrorRemedy != "mend it" || parked.ParkedAt == nil || parked.Stage != bringup.ConfigureStorage ||
				string(parked.ErrorDetails) != `{"disk": "sda"}` {
				t.Errorf("parked %+v", parked)
			}
			if first := onboarding.Recommend(parked)[0]; first.Action != want.first || first.Does == "" {
				t.Errorf("recommended %+v", first)
			}
			event := "node.onboarding.manual_intervention_required"
			if want.status == job.FailedRetryable {
				event = "node.onboarding.failed"
			}
			if n := y.told(t, o.ID, event); n != 1 {
				t.Errorf("%s told %d times", event, n)
			}
			goal := job.Completed
			if want.first == job.AdoptObserved {
				goal = job.Reconciled
			}
			if done.Status != goal || (done.ErrorCode != "" || done.FailureClass != "" || done.ErrorMessage != "" ||
				done.ParkedAt != nil) {
				t.Errorf("afterwards %+v", done)
			}
		})
	}
}

// Each stage spends its budget, waits between attempts, and goes on when the
// last attempt works.
func TestEveryStageHasItsBudget(t *testing.T) {
	y := newYard(t)
	number := 0
	for _, s := range onboarding.Stages() {
		if s.Detour {
			continue
		}
		for _, class := range []job.FailureClass{bringup.BMCPowerFailure, bringup.UpstreamTransient} {
			budget := s.Attempts
			if class == bringup.UpstreamTransient {
				budget = max(budget, 5)
			}
			for _, fails := range []int{budget - 1, budget} {
				number++
				y.script.forget()
				y.script.fails(fails, s.Name, failure(class))
				o := y.request(t, number)
				done := y.run(t, o.ID)
				tries := 0
				for _, c := range y.script.called() {
					if c == s.Name {
						tries++
					}
				}
				goal := job.Completed
				if fails == budget {
					goal = map[bool]job.Status{
						true:  job.FailedRetryable,
						false: job.FailedManualIntervention,
					}[class == bringup.UpstreamTransient]
				}
				if want := min(fails+1, budget); done.Status != goal || tries != want {
					t.Errorf("%s, %d × %s: %s after %d tries, want %s after %d", s.Name, fails, class, done.Status, tries, goal, want)
				}
			}
		}
		y.script.on(s.Name, nil)
	}
}

func TestAFinalFailureIsNotRepeated(t *testing.T) {
	y := newYard(t)
	f := failure(bringup.BMCPowerFailure)
	f.Final = true
	y.script.fails(always, bringup.CreateOrFindInMAAS, f)
	o := y.request(t, 1)
	if done := y.run(t, o.ID); done.Status != job.FailedManualIntervention || len(y.script.called()) != 3 {
		t.Errorf("%+v after %q", done, y.script.called())
	}
}

// The deadline of a stage counts from its first attempt, and is told to it.
func TestAStageKeepsItsDeadlineOverAttempts(t *testing.T) {
	y := newYard(t)
	o := y.request(t, 1)
	var since, deadlines []time.Time
	y.script.on(bringup.WaitForReady, func(ctx context.Context, w *bringup.Work, n int) (job.Result, error) {
		since, deadlines = append(since, w.Since), append(deadlines, w.Deadline)
		if n < 3 {
			f := failure(bringup.UpstreamTransient)
			return job.Result{}, &f
		}
		return y.script.well(ctx, bringup.WaitForReady, w)
	})
	if done := y.run(t, o.ID); done.Status != job.Completed {
		t.Fatalf("%+v", done)
	}
	if !since[0].Equal(since[1]) || !since[1].Equal(since[2]) || deadlines[2].Sub(since[0]) != time.Hour {
		t.Errorf("since %v, deadlines %v", since, deadlines)
	}
}

func TestAFailureMayLeadToAnotherStage(t *testing.T) {
	y := newYard(t)
	y.script.on(bringup.WaitForDeployed, func(ctx context.Context, w *bringup.Work, n int) (job.Result, error) {
		if n == 1 {
			return job.Result{}, &job.Failure{
				Class: bringup.DeployInstallerFailure, Code: job.CodeNamed("deploy_failed"),
				Message: "no datasource", Next: bringup.ClassifyDeployFailure,
			}
		}
		return y.script.well(ctx, bringup.WaitForDeployed, w)
	})
	y.script.on(bringup.ClassifyDeployFailure, func(context.Context, *bringup.Work, int) (job.Result, error) {
		return job.Result{Next: bringup.RecoverForDatasourceRetry}, nil
	})
	y.script.on(bringup.RecoverForDatasourceRetry, func(context.Context, *bringup.Work, int) (job.Result, error) {
		return job.Result{Next: bringup.RenderCloudInit}, nil
	})
	o := y.request(t, 1)
	done := y.run(t, o.ID)
	want := slices.Concat(mainStages()[:11], []string{bringup.ClassifyDeployFailure, bringup.RecoverForDatasourceRetry},
		mainStages()[8:])
	if got := y.script.called(); done.Status != job.Completed || !slices.Equal(got, want) {
		t.Errorf("%s after %q", done.Status, got)
	}
}

// A detour that names no way on, or a stage that there is not, is a defect that
// an operator hears of.
func TestAStageThatLeadsNowhere(t *testing.T) {
	y := newYard(t)
	y.script.on(bringup.ConfigureStorage, func(context.Context, *bringup.Work, int) (job.Result, error) {
		return job.Result{Next: "nowhere"}, nil
	})
	y.script.on(bringup.ResolvePowerCredentials, func(_ context.Context, w *bringup.Work, _ int) (job.Result, error) {
		if w.Hostname == "c0002" {
			panic("a defect")
		}
		return job.Result{}, nil
	})
	if done := y.run(t, y.request(t, 1).ID); done.ErrorCode != "stage_unknown" ||
		done.Status != job.FailedManualIntervention {
		t.Errorf("%+v", done)
	}
	if done := y.run(t, y.request(t, 2).ID); done.ErrorCode != "stage_defect" ||
		done.Status != job.FailedManualIntervention {
		t.Errorf("%+v", done)
	}
}

func TestAStageAwaitsASignal(t *testing.T) {
	y := newYard(t)
	o := y.request(t, 1)
	signal := node.EnrolledSignal
	y.script.on(bringup.WaitForAgentEnrollment, func(ctx context.Context, w *bringup.Work, n int) (job.Result, error) {
		if n < 3 {
			return job.Result{Message: "not yet", Await: &job.Await{Signal: signal, Most: 72 * time.Hour}}, nil
		}
		return y.script.well(ctx, bringup.WaitForAgentEnrollment, w)
	})
	var waiting onboarding.Onboarding
	done := y.run(t, o.ID, func(env *testsuite.TestWorkflowEnvironment) {
		waiting = y.read(t, o.ID)
		env.SignalWorkflow(signal, nil) // after a day
	}, func(env *testsuite.TestWorkflowEnvironment) { env.SignalWorkflow(signal, nil) })
	if waiting.Status != job.Running || waiting.Stage != bringup.WaitForAgentEnrollment || waiting.Attempt != 1 {
		t.Errorf("meanwhile %+v", waiting)
	}
	want := []string{
		"wait_for_agent_enrollment/1:started", "wait_for_agent_enrollment/1:note",
		"wait_for_agent_enrollment/1:note", "wait_for_agent_enrollment/1:succeeded",
	}
	if got := y.ledger(t, o.ID); done.Status != job.Completed || !slices.Equal(got[len(got)-4:], want) {
		t.Errorf("%s %q", done.Status, got[len(got)-4:])
	}
}

// No node becomes active without an agent that polled and a healthy sync,
// whatever a stage says.
func TestNoNodeIsActiveWithoutProof(t *testing.T) {
	for name, c := range map[string]struct {
		lie         func(w *bringup.Work)
		poll        bool
		code, stage string
	}{
		"no poll": {func(*bringup.Work) {}, false, "agent_not_seen", bringup.WaitForAgentEnrollment},
		"no sync": {func(w *bringup.Work) {
			w.Facts.SyncHealthy = nil
		}, true, "hw_sync_unproven", bringup.EnsureHardwareSyncConfigured},
		"sync before that": {func(w *bringup.Work) {
			early := w.Facts.DeployedAt.Add(-time.Hour)
			w.Facts.SyncHealthy = &early
		}, true, "hw_sync_unproven", bringup.EnsureHardwareSyncConfigured},
		"no machine": {func(w *bringup.Work) { w.SystemID = "" }, true, "machine_unknown", bringup.WaitForAgentEnrollment},
	} {
		t.Run(name, func(t *testing.T) {
			y := newYard(t)
			y.script.on(bringup.WaitForAgentEnrollment, func(ctx context.Context, w *bringup.Work, _ int) (job.Result, error) {
				c.lie(w)
				if c.poll {
					return job.Result{}, y.script.poll(ctx, w.Node)
				}
				return job.Result{}, nil
			})
			o := y.request(t, 1)
			done := y.run(t, o.ID)
			n, err := node.Get(y.ctx, y.db, o.Node)
			if done.ErrorCode != c.code || done.Status != job.FailedManualIntervention || done.Stage != c.stage || err != nil ||
				n.Status != node.Enrolling {
				t.Errorf("%+v; node %s, %v", done, n.Status, err)
			}
		})
	}
}

func TestANodeIsInstalledAndKeptOutOfService(t *testing.T) {
	y := newYard(t)
	n := y.asked(1, 1)
	n.Asked = bringup.AskedFacts{KeepOut: true}
	n.Machines[0].Rack = "c07"
	o, err := y.service.Request(y.ctx, n)
	if err != nil {
		t.Fatal(err)
	}
	if asked := o.Facts; asked.GroupedAs().Rack != "c07" || !asked.KeepsOut() {
		t.Errorf("the onboarding remembers %+v", asked)
	}
	done := y.run(t, o.ID)
	made, err := node.Get(y.ctx, y.db, o.Node)
	if err != nil || done.Status != job.Completed || made.Status != node.Quarantined || made.Schedulable {
		t.Errorf("%s; node %s, %v", done.Status, made.Status, err)
	}
}

// Which installation a node runs on is known from its onboarding, not only after reconciliation
// has seen it in service: a machine whose node is retired before that is switched off, too.
func TestTheInstallationOfANodeIsKnownFromItsOnboarding(t *testing.T) {
	y := newYard(t)
	y.script.on(bringup.DeployViaMAAS, func(_ context.Context, w *bringup.Work, _ int) (job.Result, error) {
		w.Facts.Installation = &bringup.InstallationFacts{ID: 77, Image: "ubuntu/noble"}
		return job.Result{}, nil
	})
	o := y.request(t, 1)
	if done := y.run(t, o.ID); done.Status != job.Completed {
		t.Fatalf("%+v", done)
	}
	if b, err := binding.OfNode(y.ctx, y.db, o.Node); err != nil || b.Installation != 77 {
		t.Errorf("it is known to run installation %d, %v", b.Installation, err)
	}
}

// A machine that another node has is not taken from it.
func TestAMachineOfAnotherNodeStaysThere(t *testing.T) {
	y := newYard(t)
	first := y.request(t, 1)
	if done := y.run(t, first.ID); done.Status != job.Completed {
		t.Fatalf("%+v", done)
	}
	y.script.on(bringup.CreateOrFindInMAAS, func(_ context.Context, w *bringup.Work, _ int) (job.Result, error) {
		w.SystemID = "sys-c0001"
		return job.Result{}, nil
	})
	second := y.request(t, 2)
	done := y.run(t, second.ID)
	if done.Status != job.FailedManualIntervention || done.ErrorCode != "machine_bound" ||
		done.FailureClass != bringup.StateAmbiguity {
		t.Errorf("%+v", done)
	}
	if n, err := node.Get(y.ctx, y.db, second.Node); err != nil || n.Status != node.Enrolling {
		t.Errorf("%+v %v", n, err)
	}
}

// What MAAS shows is kept, with since when it has shown it.
func TestWhatIsSeenIsKept(t *testing.T) {
	y := newYard(t)
	early, late := time.Now().Add(-time.Hour).UTC().Truncate(time.Microsecond), time.Now().UTC().Truncate(time.Microsecond)
	var saved onboarding.Onboarding
	o := y.request(t, 1)
	y.script.on(bringup.WaitForReady, func(ctx context.Context, w *bringup.Work, _ int) (job.Result, error) {
		w.Observed = bringup.Observed{Status: "Commissioning", Power: "on", At: early}
		err := w.Save(ctx)
		saved = y.read(t, o.ID)
		w.Observed.At = late
		return job.Result{}, errors.Join(err, w.Fence(ctx))
	})
	y.script.fails(always, bringup.ConfigureStorage, failure(bringup.HardwareMismatch))
	done := y.run(t, o.ID)
	if saved.Observed.Status != "Commissioning" || saved.ObservedSince == nil || !saved.ObservedSince.Equal(early) ||
		saved.SystemID != "sys-c0001" {
		t.Errorf("saved %+v", saved)
	}
	if !done.ObservedSince.Equal(early) || !done.Observed.At.Equal(late) {
		t.Errorf("since %v, at %v", done.ObservedSince, done.Observed.At)
	}
}

func TestASiteThatIsGoneParksTheJob(t *testing.T) {
	y := newYard(t)
	o := y.request(t, 1)
	y.exec(t, `UPDATE maas_sites SET deleted_at = clock_timestamp()`)
	if done := y.run(t, o.ID); done.Status != job.FailedManualIntervention ||
		done.FailureClass != bringup.InputConfigError {
		t.Errorf("%+v", done)
	}
	if _, err := y.service.Get(y.ctx, [16]byte{1}); fault.CodeOf(err) != "onboarding_not_found" {
		t.Errorf("%v", err)
	}
}
