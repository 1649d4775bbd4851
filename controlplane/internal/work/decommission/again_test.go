package decommission_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/testsuite"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/engine/durable"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/decommission"
	"gpuaas/controlplane/internal/work/job"
)

// A tenant gets into a node that is installed anew before it is let go: whoever
// goes through all stages again cleans that installation, and deploys no other.
func TestAReimagedNodeIsCleanedAndNotInstalledTwice(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	n := y.node(t, node.Active, true)
	d := y.request(t, n, decommission.Reimage)
	before := 0
	y.before = func(call durable.StageCall) error {
		if call.Stage == decommission.StageCertificate && call.Epoch == 1 {
			y.exec(t, `UPDATE nodes SET tainted_at = clock_timestamp() + interval '1 hour' WHERE id = $1`, n)
		}
		if call.Stage == decommission.StageEnable && call.Epoch == 1 {
			before = y.tasksOf(t, n, agentwire.TypeDrain)
		}
		return nil
	}
	end := y.run(t, d.ID, y.act(t, d.ID, job.Rerun, func() {
		y.exec(t, `UPDATE nodes SET tainted_at = clock_timestamp() WHERE id = $1`, n)
	}))
	wants(t, end, job.Completed, decommission.StageEnable, "")
	if after := y.tasksOf(t, n, agentwire.TypeDrain); after < before+2 {
		t.Errorf("%d drains before the rerun and %d after it: the new installation was not drained", before, after)
	}
	deploys := 0
	for _, call := range y.script.calls {
		if call == bringup.DeployViaMAAS || call == bringup.ReleaseMAASNode {
			deploys++
		}
	}
	if deploys != 2 || !slices.Contains(y.ledger(t, d.ID), "deploy_via_maas/1:skipped") {
		t.Errorf("released and deployed: %q, ledger %q", y.script.calls, y.ledger(t, d.ID))
	}
}

// A reimage leaves the second cleaning out only where the first one cleaned what
// there is: not where somebody went on without it, and not what a tenant left since.
func TestAttackASecondCleaningIsNotSparedByOneThatCleanedNothing(t *testing.T) {
	t.Parallel()
	for name, passes := range map[string]bool{"overridden": true, "a tenant since": false} {
		t.Run(name, func(t *testing.T) {
			y := newYard(t)
			n := y.node(t, node.Active, true)
			d := y.request(t, n, decommission.Reimage)
			var visits []func(*testsuite.TestWorkflowEnvironment)
			if passes {
				stuck := clean(agentwire.TypeStorageCleanup).(agentwire.StorageCleanupOutput)
				stuck.Residue = []string{"/data: busy"}
				y.agent.on(agentwire.TypeStorageCleanup, succeeds(stuck), succeeds(stuck),
					succeeds(clean(agentwire.TypeStorageCleanup)))
				visits = append(visits, y.override(t, d.ID, decommission.StageStorage))
			} else {
				y.intrude(n, bringup.ReleaseMAASNode)
			}
			wants(t, y.run(t, d.ID, visits...), job.Completed, decommission.StageEnable, "")
			if ledger := y.ledger(t, d.ID); slices.Contains(ledger, decommission.StageStorageAgain+"/1:skipped") {
				t.Errorf("the new installation cleaned nothing: %q", ledger)
			}
		})
	}
}

// A machine that somebody removed from MAAS after it was released cannot be
// switched off there: the rest goes on, and that is left to somebody.
func TestAMachineThatIsGoneIsAFollowUp(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	n := y.node(t, node.Active, true)
	d := y.request(t, n, decommission.FullDecommission)
	gone := failure(bringup.StateAmbiguity, "machine_gone")
	gone.Final = true
	y.script.fails(1, bringup.PowerOffMAASNode, gone)
	y.script.on("adopt", func(context.Context, *bringup.Work, int) (job.Result, error) { return job.Result{}, &gone })
	end := y.run(t, d.ID, y.act(t, d.ID, job.AdoptObserved))
	if end.Status != job.Reconciled || y.see(t, n).Status != node.Deleted {
		t.Fatalf("%s at %s: %s %s", end.Status, end.Stage, end.ErrorCode, end.ErrorMessage)
	}
	if want := []string{n.String() + ": its full_decommission has ended"}; !slices.Equal(y.doubts, want) {
		t.Errorf("to be looked at: %q, want %q", y.doubts, want)
	}
	if len(end.FollowUps) != 1 || end.FollowUps[0].What != "switch off "+d.Hostname {
		t.Errorf("left to be done: %+v", end.FollowUps)
	}
}

// A machine that is gone before it could be released has nothing to adopt: it is
// looked for again, or operators go on without it, and the end says so.
func TestAMachineThatWasGoneBeforeItsReleaseIsWaived(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	n := y.node(t, node.Active, true)
	d := y.request(t, n, decommission.FullDecommission)
	gone := failure(bringup.StateAmbiguity, "machine_gone")
	gone.Final = true
	y.script.fails(1, bringup.ReleaseMAASNode, gone)
	y.script.fails(1, bringup.PowerOffMAASNode, gone)
	y.script.on("adopt", func(context.Context, *bringup.Work, int) (job.Result, error) { return job.Result{}, &gone })
	recommends := func(want job.Trigger) func() {
		return func() {
			if got := decommission.Recommended(y.read(t, d.ID)); got != want {
				t.Errorf("recommended is %s, want %s", got, want)
			}
		}
	}
	end := y.run(t, d.ID,
		func(env *testsuite.TestWorkflowEnvironment) {
			recommends(job.RetryStage)()
			y.override(t, d.ID, bringup.ReleaseMAASNode)(env)
		},
		y.act(t, d.ID, job.AdoptObserved, recommends(job.AdoptObserved)))
	if end.CompletedAt == nil || y.see(t, n).Status != node.Deleted {
		t.Fatalf("%s at %s: %s %s", end.Status, end.Stage, end.ErrorCode, end.ErrorMessage)
	}
	said := decommission.Explain(end, nil, time.Now()).Summary
	if !strings.Contains(said, "NOT all of it was done") || !strings.Contains(said, "(risk: data may be readable)") ||
		strings.Contains(said, "released and switched off") {
		t.Errorf("it ends with %q", said)
	}
}
