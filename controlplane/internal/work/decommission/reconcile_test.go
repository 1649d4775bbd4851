package decommission_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/testsuite"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/durable"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/decommission"
	"gpuaas/controlplane/internal/work/job"
)

func working(of id.Decommission) bringup.Working {
	return bringup.Working{Kind: "decommission", ID: of.String()}
}

// ProveInstalled implements decommission.Bringup.
func (s *script) ProveInstalled(_ context.Context, w *bringup.Work) (bringup.Proof, string, error) {
	s.note("prove installed")
	if s.installed == nil {
		return bringup.Proof{}, "nothing is installed", nil
	}
	if missing := s.installed(w); missing != "" {
		return bringup.Proof{}, missing, nil
	}
	now := time.Now().UTC()
	w.Facts.DeployedAt, w.Facts.SyncHealthy, w.Facts.Addresses = &now, &now, []string{"10.20.0.9"}
	return bringup.Proof{
		Image: "ubuntu/noble", AgentVersion: "1.2.3", FirstPollAt: now, LastContactAt: now,
		LastSync: &now,
	}, "", nil
}

// ProveVacant implements decommission.Bringup.
func (s *script) ProveVacant(_ context.Context, w *bringup.Work) (string, error) {
	s.note("prove vacant")
	if s.vacant == nil {
		return "it is not vacant", nil
	}
	w.Observed = bringup.Observed{Status: "Ready", Power: "off", At: time.Now()}
	return s.vacant(w), nil
}

// Forget implements decommission.Bringup.
func (s *script) Forget(context.Context, *bringup.Work) error {
	s.note("forget")
	return nil
}

// proven is a look that shows everything.
func proven(*bringup.Work) string { return "" }

// reconcile is a visit of reconciliation, which must come to a result and, where
// it comes to nothing, change nothing.
func (y *yard) reconcile(t *testing.T, of id.Decommission, want bool) func(*testsuite.TestWorkflowEnvironment) {
	t.Helper()
	return func(env *testsuite.TestWorkflowEnvironment) {
		before := y.whole(t, of)
		reached, err := y.service.Reconcile(y.ctx, working(of))
		if err != nil || reached != want {
			t.Errorf("reached is %t, %v; want %t", reached, err, want)
		}
		if !want && y.whole(t, of) != before {
			t.Error("something changed")
		}
		if want {
			env.SignalWorkflow(durable.ActSignal, nil)
		}
	}
}

// whole is everything that the database has of an operation, its node and what
// was told, as text.
func (y *yard) whole(tb testing.TB, of id.Decommission) (text string) {
	tb.Helper()
	err := y.owner.QueryRow(y.ctx, `SELECT concat_ws(E'\n', (SELECT to_jsonb(d)::text || (SELECT j.xmin::text FROM jobs j WHERE j.id = d.id) FROM node_decommissions d WHERE d.id = $1),
		(SELECT to_jsonb(n)::text || n.xmin::text FROM nodes n JOIN node_decommissions d ON d.node_id = n.id WHERE d.id = $1),
		(SELECT count(*) FROM job_events), (SELECT count(*) FROM node_decommission_evidence), (SELECT count(*) FROM outbox_events),
		(SELECT count(*) FROM audit_logs), (SELECT count(*) FROM node_events), (SELECT count(*) FROM node_tasks))`, of).Scan(&text)
	if err != nil {
		tb.Fatal(err)
	}
	return text
}

// goesOn is an adoption that goes by what was proven, as that of bringup does.
func goesOn(_ context.Context, w *bringup.Work, _ int) (job.Result, error) {
	if f := w.Facts; f.SyncHealthy == nil || f.DeployedAt == nil || f.SyncHealthy.Before(*f.DeployedAt) {
		return job.Result{Next: bringup.EnsureHardwareSyncConfigured}, nil
	}
	return job.Result{Next: bringup.WaitForAgentEnrollment, Message: "it is deployed"}, nil
}

// A late agent and a late hardware sync let a reimage go on; the node returns to
// service only once it is validated and its certificate is issued.
func TestALateReimageIsReconciled(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		stage string
		class job.FailureClass
	}{
		"the node-agent enrols after the workflow marked a failure": {
			bringup.WaitForAgentEnrollment,
			bringup.AgentEnrollmentFailure,
		},
		"the hardware sync comes late":             {bringup.WaitForHardwareSyncHealthy, bringup.HardwareSyncFailure},
		"MAAS reports a later state than expected": {bringup.WaitForDeployed, bringup.StateAmbiguity},
	} {
		t.Run(name, func(t *testing.T) {
			y := newYard(t)
			n := y.node(t, node.Active, true)
			d := y.request(t, n, decommission.Reimage)
			f := failure(c.class, "made_up")
			f.Final = true
			y.script.fails(1, c.stage, f)
			y.script.on("adopt", goesOn)
			end := y.run(t, d.ID,
				y.reconcile(t, d.ID, false), // nothing is proven
				func(env *testsuite.TestWorkflowEnvironment) {
					wants(t, y.read(t, d.ID), job.FailedManualIntervention, c.stage, "made_up")
					y.script.installed = proven
					y.reconcile(t, d.ID, true)(env)
				})
			wants(t, end, job.Reconciled, decommission.StageEnable, "")
			if got := y.stands(t, n); got != "active schedulable" {
				t.Errorf("the node is %s", got)
			}
			if y.paper(t, d.ID) == nil || y.tasksOf(t, n, agentwire.TypeValidateClean) != 1 {
				t.Error("it returned to service without proof that it is clean")
			}
			if y.count(t, `SELECT count(*) FROM job_events WHERE job_id = $1 AND status = 'action' AND details->>'actor' = 'system:reconciliation' AND message LIKE '%ubuntu/noble%'`, d.ID) != 1 {
				t.Errorf("the ledger does not say who led it on: %q", y.ledger(t, d.ID))
			}
			if slices.Contains(y.script.calls[slices.Index(y.script.calls, "adopt"):], bringup.EnsureHardwareSyncConfigured) {
				t.Error("what is proven was done once more")
			}
		})
	}
}

// Leading on is tried once: what parks again is left to operators, and so is
// what was found after the installation.
func TestAReimageIsLedOnOnce(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	y.script.installed = proven
	n := y.node(t, node.Active, true)
	d := y.request(t, n, decommission.Reimage)
	f := failure(bringup.AgentEnrollmentFailure, "failed_enrollment")
	f.Final = true
	y.script.fails(2, bringup.WaitForAgentEnrollment, f)
	y.script.on("adopt", goesOn)
	y.agent.on(agentwire.TypeValidateClean, succeeds(dirty()))
	end := y.run(t, d.ID, y.reconcile(t, d.ID, true), y.reconcile(t, d.ID, false), y.act(t, d.ID, job.RetryStage),
		y.reconcile(t, d.ID, false))
	wants(t, end, job.FailedManualIntervention, decommission.StageValidate, "validation_residue")
	if got := y.stands(t, n); got != "quarantined held" {
		t.Errorf("the node is %s", got)
	}
}

// An adoption that finds otherwise parks the job as it was: nothing is worse.
func TestAReimageThatIsLedOnInVain(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	y.script.installed = proven
	n := y.node(t, node.Active, true)
	d := y.request(t, n, decommission.Reimage)
	f := failure(bringup.AgentEnrollmentFailure, "failed_enrollment")
	f.Final = true
	y.script.fails(always, bringup.WaitForAgentEnrollment, f)
	other := failure(bringup.StateAmbiguity, "nothing_to_adopt")
	other.Final = true
	y.script.fails(always, "adopt", other)
	end := y.run(t, d.ID, y.reconcile(t, d.ID, true))
	wants(t, end, job.FailedManualIntervention, bringup.WaitForAgentEnrollment, "nothing_to_adopt")
	if got := y.stands(t, n); got != "enrolling held" {
		t.Errorf("the node is %s", got)
	}
	legal := decommission.LegalActions(end)
	for _, action := range []job.Trigger{job.RetryStage, job.Resume, job.Rerun, job.Cancel} {
		if !slices.Contains(legal, action) {
			t.Errorf("%s is not possible any more", action)
		}
	}
}

// What happens behind the agent of a node is not proven by what MAAS shows.
func TestModesThatNothingOutsideProves(t *testing.T) {
	t.Parallel()
	for _, mode := range []decommission.Mode{
		decommission.SoftReset, decommission.StorageCleanup, decommission.Drain,
		decommission.Retire, decommission.Reactivate, decommission.Remove,
	} {
		t.Run(string(mode), func(t *testing.T) {
			y := newYard(t)
			y.script.installed, y.script.vacant = proven, proven
			n := y.node(t, decommission.From(mode)[0], true)
			d := y.request(t, n, mode)
			for _, typ := range []string{agentwire.TypeDrain, agentwire.TypeStorageCleanup, agentwire.TypeUninstall} {
				y.agent.on(typ, fails("made_up", "it does not work"), fails("made_up", "it does not work"))
			}
			end := y.run(t, d.ID, y.reconcile(t, d.ID, false))
			if !end.Parked() {
				t.Errorf("it is %s at %s", end.Status, end.Stage)
			}
		})
	}
}

// A full decommission goes on by itself where all that is left is on paper.
func TestAFullDecommissionIsReconciled(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	n := y.node(t, node.Active, true)
	d := y.request(t, n, decommission.FullDecommission)
	f := failure(bringup.UpstreamTransient, "made_up")
	f.Final = true
	y.script.fails(1, bringup.RemoveMAASRecord, f)
	end := y.run(t, d.ID,
		y.reconcile(t, d.ID, false), // its machine is not seen to be vacant
		func(env *testsuite.TestWorkflowEnvironment) {
			wants(t, y.read(t, d.ID), job.FailedRetryable, bringup.RemoveMAASRecord, "made_up")
			y.script.vacant = proven
			y.reconcile(t, d.ID, true)(env)
		})
	wants(t, end, job.Reconciled, decommission.StageCertificate, "")
	if y.see(t, n).Status != node.Deleted || y.paper(t, d.ID) == nil {
		t.Errorf("the node is %s", y.see(t, n).Status)
	}
}

// Nothing is removed that an operator was asked about.
func TestAFullDecommissionThatIsNotSoFar(t *testing.T) {
	t.Parallel()
	for _, stage := range []string{bringup.ReleaseMAASNode, bringup.PowerOffMAASNode} {
		t.Run(stage, func(t *testing.T) {
			y := newYard(t)
			y.script.installed, y.script.vacant = proven, proven
			n := y.node(t, node.Active, true)
			d := y.request(t, n, decommission.FullDecommission)
			f := failure(bringup.StateAmbiguity, "made_up")
			f.Final = true
			y.script.fails(always, stage, f)
			wants(t, y.run(t, d.ID, y.reconcile(t, d.ID, false)), job.FailedManualIntervention, stage, "made_up")
		})
	}
}

// The same sighting is noted once, by a job that runs on.
func TestASightingIsNotedOnce(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	n := y.node(t, node.Active, true)
	d := y.request(t, n, decommission.FullDecommission)
	list, err := y.service.Under(y.ctx, y.site.ID)
	if err != nil || len(list) != 1 || list[0].ID != d.ID.String() || list[0].Node != n || list[0].SystemID == "" ||
		list[0].Parked || !strings.Contains(list[0].Goal, "deleted") {
		t.Fatalf("under way are %+v, %v", list, err)
	}
	y.script.on(bringup.ReleaseMAASNode, func(ctx context.Context, w *bringup.Work, _ int) (job.Result, error) {
		for _, seen := range []string{"it is Broken in MAAS", "it is Broken in MAAS", "it is Ready in MAAS"} {
			if err := y.service.Notice(y.ctx, list[0], seen, nil); err != nil {
				t.Error(err)
			}
		}
		if err := w.Fence(ctx); err != nil {
			t.Errorf("the stage lost its job: %v", err)
		}
		return y.script.well(ctx, bringup.ReleaseMAASNode, w)
	})
	end := y.run(t, d.ID)
	if end.Status != job.Completed {
		t.Fatalf("it is %s: %s", end.Status, end.ErrorMessage)
	}
	noted := slices.DeleteFunc(y.ledger(t, d.ID), func(e string) bool {
		return !strings.HasPrefix(e, bringup.ReleaseMAASNode)
	})
	same(t, "ledger", noted, []string{
		"release_maas_node/1:observed", "release_maas_node/1:observed",
		"release_maas_node/1:succeeded",
	})
	if list, err := y.service.Under(y.ctx, y.site.ID); err != nil || len(list) != 0 {
		t.Errorf("under way are %+v, %v", list, err)
	}
}
