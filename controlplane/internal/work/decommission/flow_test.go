package decommission_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.temporal.io/sdk/testsuite"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/durable"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/decommission"
	"gpuaas/controlplane/internal/work/job"
)

// wait is a visit of nobody.
func wait(*testsuite.TestWorkflowEnvironment) {}

// shows is a node whose inspection found so many GPUs.
func (y *yard) shows(tb testing.TB, of id.Node, gpus int) {
	tb.Helper()
	found := agentwire.Capabilities{}
	for i := range gpus {
		found.GPUs = append(found.GPUs, agentwire.GPU{UUID: fmt.Sprintf("GPU-%d", i+1)})
	}
	raw, err := json.Marshal(found)
	if err != nil {
		tb.Fatal(err)
	}
	y.exec(tb, `INSERT INTO node_inspections (node_id, found) VALUES ($1, $2) ON CONFLICT (node_id) DO UPDATE SET found = excluded.found`, of, raw)
}

// proven is a node that no tenant has had since it was proven clean.
func (y *yard) proven(tb testing.TB, status node.Status, managed bool) id.Node {
	tb.Helper()
	n := y.node(tb, status, managed)
	y.exec(tb, `UPDATE nodes SET tainted_at = NULL WHERE id = $1`, n)
	return n
}

// move moves a node on behalf of the operator.
func (y *yard) move(tb testing.TB, of id.Node, event node.Event, cause string) {
	tb.Helper()
	if err := y.db.InTx(y.ctx, func(ctx context.Context, tx pgx.Tx) error {
		_, err := node.Move(ctx, tx, of, event, cause)
		return err
	}); err != nil {
		tb.Fatal(err)
	}
}

// A GPU whose driver is gone, or that fell off the bus, still has its memory.
func TestGPUsThatAreNotSeenAreNotScrubbed(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	none := agentwire.GPUScrubOutput{
		Outcome: "not_applicable", Reason: "this machine has no GPU",
		GPUs: []agentwire.GPUScrubbed{},
	}
	some := func(number int) agentwire.GPUScrubOutput {
		return agentwire.GPUScrubOutput{Outcome: "scrubbed", Vendor: "nvidia", GPUs: scrubbed(number)}
	}
	for name, c := range map[string]struct {
		inspected int
		out       agentwire.GPUScrubOutput
		passes    bool
	}{
		"driver gone":                   {8, none, false},
		"one fell off the bus":          {8, some(7), false},
		"one was seen of a kind with 8": {1, some(1), false},
		"more than the kind has":        {9, some(8), false},
		"all":                           {8, some(8), true},
		"none was ever seen":            {0, none, false},
	} {
		t.Run(name, func(t *testing.T) {
			wellAgain(y)
			n := y.node(t, node.Active, false)
			y.shows(t, n, c.inspected)
			y.agent.on(agentwire.TypeGPUScrub, succeeds(c.out))
			d := y.run(t, y.request(t, n, decommission.SoftReset).ID)
			if c.passes {
				wants(t, d, job.Completed, decommission.StageEnable, "")
				return
			}
			wants(t, d, job.FailedManualIntervention, decommission.StageScrub, "gpu_scrub_incomplete")
			if y.see(t, n).Schedulable {
				t.Error("it is schedulable")
			}
		})
	}
}

// An agent that erases a disk, or uninstalls itself, may not be able to stop.
func TestANodeIsNotLetGoWhileItsAgentIsAtWork(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		mode             decommission.Mode
		from             node.Status
		typ, busy, after string
	}{
		{decommission.StorageCleanup, node.Active, agentwire.TypeStorageCleanup, "active held", "active"},
		{decommission.Remove, node.Retired, agentwire.TypeUninstall, "removing held", "retired"},
	} {
		t.Run(string(c.mode), func(t *testing.T) {
			y := newYard(t, patient)
			n := y.proven(t, c.from, false)
			d := y.request(t, n, c.mode)
			y.agent.on(c.typ, keeps)
			y.agent.stubborn = true
			looks := 0
			y.before = func(call durable.StageCall) error {
				if call.Stage != job.StageCompensate {
					return nil
				}
				if looks++; looks < 3 {
					return nil
				}
				if live := y.count(t, `SELECT count(*) FROM node_tasks WHERE node_id = $1 AND status = 'dispatched' AND cancel_requested`, n); live != 1 && looks == 3 {
					t.Errorf("%d tasks are being stopped", live)
				}
				if got := y.stands(t, n); got != c.busy {
					t.Errorf("while the agent is at it, the node is %s", got)
				}
				y.agent.mu.Lock()
				defer y.agent.mu.Unlock()
				y.agent.stubborn = false
				return nil
			}
			end := y.run(t, d.ID, wait, y.act(t, d.ID, job.Cancel))
			if looks < 3 {
				t.Errorf("it was let go of at look %d", looks)
			}
			if end.Status != job.Cancelled || y.stands(t, n) != c.after {
				t.Errorf("it is %s, the node %s", end.Status, y.stands(t, n))
			}
		})
	}
}

// Nobody takes an operation over between the fence and the effect.
func TestTheFenceHoldsUntilTheEffectIsDone(t *testing.T) {
	t.Parallel()
	for _, stage := range []string{decommission.StageDisable, decommission.StageDrain} {
		t.Run(stage+"/held", func(t *testing.T) {
			y := newYard(t)
			n := y.node(t, node.Active, false)
			d := y.request(t, n, decommission.SoftReset)
			asked := 0
			y.equip = func(call durable.StageCall, w *bringup.Work) {
				fence := w.FenceIn
				w.FenceIn = func(ctx context.Context, tx pgx.Tx) error {
					err := fence(ctx, tx)
					if call.Stage != stage {
						return err
					}
					asked++
					if _, err := y.owner.Exec(ctx, `SELECT 1 FROM node_decommissions WHERE id = $1 FOR NO KEY UPDATE NOWAIT`,
						d.ID); err == nil {
						t.Error("somebody else could take it over")
					}
					return err
				}
			}
			end := y.run(t, d.ID)
			wants(t, end, job.Completed, decommission.StageEnable, "")
			if asked == 0 {
				t.Error("the fence was not asked in the transaction")
			}
		})
		t.Run(stage+"/lost", func(t *testing.T) {
			y := newYard(t)
			n := y.proven(t, node.Active, false)
			d := y.request(t, n, decommission.SoftReset)
			y.equip = func(call durable.StageCall, w *bringup.Work) {
				fence := w.FenceIn
				w.FenceIn = func(ctx context.Context, tx pgx.Tx) error {
					if call.Stage == stage && call.Epoch == 1 {
						if _, err := y.service.Act(y.ctx, d.ID, job.MarkManual, "because of the test"); err != nil {
							t.Error(err)
						}
					}
					return fence(ctx, tx)
				}
			}
			end := y.run(t, d.ID)
			wants(t, end, job.FailedManualIntervention, stage, "operator_marked")
			if held := y.see(t, n).HeldBy != ""; held != (stage == decommission.StageDrain) ||
				y.tasksOf(t, n, agentwire.TypeDrain) > 0 {
				t.Errorf("the node is %s and has %d tasks", y.stands(t, n), y.tasksOf(t, n, agentwire.TypeDrain))
			}
		})
	}
}

// An operation that has ended holds nothing, whatever it left behind.
func TestAHoldThatAnEndedOperationLeftIsTakenOver(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	n := y.node(t, node.Active, false)
	first := y.run(t, y.request(t, n, decommission.SoftReset).ID)
	y.exec(t, `UPDATE nodes SET held_by = $2, schedulable = false, tainted_at = clock_timestamp() WHERE id = $1`, n,
		decommission.HolderOf(first))
	end := y.run(t, y.request(t, n, decommission.SoftReset).ID)
	wants(t, end, job.Completed, decommission.StageEnable, "")
	if got := y.stands(t, n); got != "active schedulable" {
		t.Errorf("the node is %s", got)
	}
}

// Who cancels a drain gets back what there was, not a node that serves.
func TestACancelReturnsANodeToWhatItWas(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	for _, c := range []struct {
		mode decommission.Mode
		from node.Status
		want node.Status
	}{
		{decommission.Drain, node.Quarantined, node.Quarantined},
		{decommission.Reimage, node.Quarantined, node.Quarantined},
		{decommission.Reimage, node.Retired, node.Retired},
		{decommission.Drain, node.Active, node.Offline}, // and active with the next sign of its agent
	} {
		t.Run(string(c.mode)+"/"+string(c.from), func(t *testing.T) {
			wellAgain(y)
			from := c.from
			if from == node.Quarantined {
				from = node.Active
			}
			n := y.proven(t, from, c.mode == decommission.Reimage)
			if c.from == node.Quarantined {
				y.move(t, n, node.Quarantine, "a fan fails")
			}
			d := y.request(t, n, c.mode)
			y.agent.on(agentwire.TypeDrain, fails("broken", "it broke"))
			end := y.run(t, d.ID, y.act(t, d.ID, job.Cancel))
			if now := y.see(t, n); end.Status != job.Cancelled || now.Status != c.want || now.HeldBy != "" {
				t.Errorf("it is %s, the node %s", end.Status, y.stands(t, n))
			}
			if c.from != node.Quarantined {
				return
			}
			entries, err := y.nodes.History(y.ctx, n, 0, nil, 10)
			if err != nil || !strings.Contains(entries[0].Cause+entries[1].Cause+entries[2].Cause,
				"it was quarantined before: a fan fails") {
				t.Errorf("why it is quarantined is lost: %+v %v", entries, err)
			}
		})
	}
}

// What an operator, or a finding about the hardware, took out of service is not
// returned to it by whoever cleans it.
func TestOnlyAQuarantineForResidueIsLiftedByACleanValidation(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	for _, mode := range []decommission.Mode{decommission.SoftReset, decommission.StorageCleanup} {
		t.Run(string(mode)+"/of an operator", func(t *testing.T) {
			wellAgain(y)
			n := y.proven(t, node.Active, false)
			y.move(t, n, node.Quarantine, "a fan fails")
			end := y.run(t, y.request(t, n, mode).ID)
			wants(t, end, job.Completed, decommission.StageEnable, "")
			if got := y.stands(t, n); got != "quarantined" {
				t.Errorf("the node is %s", got)
			}
			left("return "+end.Hostname+" to service")(t, y, end)
			if len(end.FollowUps) != 1 || !strings.Contains(end.FollowUps[0].Why, "a fan fails") {
				t.Errorf("left to be done: %+v", end.FollowUps)
			}
		})
	}
	t.Run("of a validation", func(t *testing.T) {
		wellAgain(y)
		n := y.node(t, node.Active, false)
		y.agent.on(agentwire.TypeValidateClean, succeeds(dirty()))
		first := y.request(t, n, decommission.SoftReset)
		y.run(t, first.ID, y.act(t, first.ID, job.Cancel))
		if got := y.stands(t, n); got != "quarantined" {
			t.Fatalf("the node is %s", got)
		}
		y.agent.on(agentwire.TypeDrain, fails("broken", "it broke"))
		second := y.request(t, n, decommission.Drain) // that it is stopped does not hide why
		y.run(t, second.ID, y.act(t, second.ID, job.Cancel))
		wellAgain(y)
		end := y.run(t, y.request(t, n, decommission.SoftReset).ID)
		wants(t, end, job.Completed, decommission.StageEnable, "")
		if got := y.stands(t, n); got != "active schedulable" || len(end.FollowUps) > 0 {
			t.Errorf("the node is %s, left to be done: %+v", got, end.FollowUps)
		}
	})
}

// A task whose agent goes on long after its deadline is looked at now and then.
func TestATaskThatOverrunsIsNotLookedAtAllTheTime(t *testing.T) {
	y := newYard(t)
	n := y.node(t, node.Active, false)
	d := y.request(t, n, decommission.SoftReset)
	y.agent.on(agentwire.TypeDrain, keeps)
	env := activities(y)
	look := func() (turn durable.Turn) {
		t.Helper()
		value, err := env.ExecuteActivity(y.service.NextTurn, d.ID.String())
		if err == nil {
			err = value.Get(&turn)
		}
		if err != nil {
			t.Fatal(err)
		}
		value, err = env.ExecuteActivity(y.service.RunOne,
			durable.StageCall{Job: d.ID.String(), Stage: turn.Stage, Attempt: turn.Attempt, Epoch: turn.Epoch})
		if err == nil {
			err = value.Get(&turn)
		}
		if err != nil {
			t.Fatal(err)
		}
		return turn
	}
	look() // disable
	look() // ask
	look() // the agent fetches it
	y.exec(t, `UPDATE node_tasks SET deadline_at = clock_timestamp() - interval '2 hours', lease_expires_at = clock_timestamp() + interval '1 minute' WHERE node_id = $1`, n)
	if turn := look(); turn.Do != durable.TurnAwait || turn.Wait < agentwire.Lease {
		t.Errorf("it %ss for %s", turn.Do, turn.Wait)
	}
}

// Once the node is deleted, what belongs to that is seen through.
func TestADeletedNodeIsNotLeftHalfway(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		mode    decommission.Mode
		from    node.Status
		managed bool
	}{{decommission.FullDecommission, node.Active, true}, {decommission.Remove, node.Retired, false}} {
		t.Run(string(c.mode), func(t *testing.T) {
			y := newYard(t)
			d := y.request(t, y.node(t, c.from, c.managed), c.mode)
			y.before = func(call durable.StageCall) error {
				if call.Stage != decommission.StageSecrets || call.Epoch > 1 {
					return nil
				}
				f := failure(bringup.StateAmbiguity, "broken")
				f.Final = true
				return &f
			}
			refused := func(*testsuite.TestWorkflowEnvironment) {
				now := y.read(t, d.ID)
				wants(t, now, job.FailedManualIntervention, decommission.StageSecrets, "broken")
				for _, action := range []job.Trigger{job.Cancel, job.Rerun, job.RestartClean} {
					if _, err := y.service.Act(y.ctx, d.ID, action, "because of the test"); fault.KindOf(err) != fault.Conflict {
						t.Errorf("%s: %v", action, err)
					}
				}
			}
			end := y.run(t, d.ID, refused, y.act(t, d.ID, job.Resume))
			if end.Status != job.Completed || len(y.vault.deleted) == 0 {
				t.Errorf("it is %s at %s, secrets deleted: %v", end.Status, end.Stage, y.vault.deleted)
			}
		})
	}
}

// An agent that was drained refuses users, wherever the operation stands when
// it is cancelled.
func TestANodeThatWasDrainedOnceIsKeptOut(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	n := y.proven(t, node.Active, false)
	d := y.request(t, n, decommission.SoftReset)
	y.agent.on(agentwire.TypeStorageCleanup, fails("broken", "it broke"))
	y.before = func(call durable.StageCall) error {
		if call.Stage != decommission.StageDisable || call.Epoch == 1 {
			return nil
		}
		_, err := y.service.Act(y.ctx, d.ID, job.Cancel, "because of the test")
		return err
	}
	end := y.run(t, d.ID, y.act(t, d.ID, job.Rerun))
	if got := y.stands(t, n); end.Status != job.Cancelled || got != "active" {
		t.Errorf("it is %s at %s, the node %s", end.Status, end.Stage, got)
	}
}

// Whoever was superseded stops no task of those who came after.
func TestAnOverrideThatWasSupersededStopsNothing(t *testing.T) {
	y := newYard(t, patient)
	n := y.node(t, node.Active, false)
	d := y.request(t, n, decommission.SoftReset)
	y.agent.set(false, true)
	y.before = func(call durable.StageCall) error {
		if call.Stage != decommission.StageDrain || call.Epoch != 3 {
			return nil
		}
		_, err := y.service.Act(y.ctx, d.ID, job.MarkManual, "because of the test")
		return err
	}
	y.run(t, d.ID, y.act(t, d.ID, job.MarkManual), y.override(t, d.ID, decommission.StageDrain))
	if got := y.count(t, `SELECT count(*) FROM node_tasks WHERE node_id = $1 AND type = 'node.drain' AND status = 'queued'`, n); got != 1 {
		t.Errorf("%d drains wait for the agent", got)
	}
}

// What was asked for before the drain was repeated says nothing about the node
// after it.
func TestATaskOfAnEarlierPassIsNotTheEvidenceOfALaterOne(t *testing.T) {
	t.Parallel()
	y := newYard(t, patient)
	n := y.node(t, node.Active, false)
	d := y.request(t, n, decommission.SoftReset)
	y.agent.on(agentwire.TypeStorageCleanup, keeps)
	end := y.run(t, d.ID, wait, y.act(t, d.ID, job.MarkManual), y.act(t, d.ID, job.Rerun, func() {
		wellAgain(y)
	}), wait, wait, wait)
	wants(t, end, job.Completed, decommission.StageEnable, "")
	for status, want := range map[string]int{"cancelled": 1, "succeeded": 1} {
		if got := y.count(t, `SELECT count(*) FROM node_tasks WHERE node_id = $1 AND type = 'node.storage_cleanup' AND status::text = $2`, n, status); got != want {
			t.Errorf("%d storage cleanups %s, want %d", got, status, want)
		}
	}
}

// What the remedy of a reimage promises is what happens.
func TestARerunOfAReimageIsNoDeadEnd(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	t.Run("unclean", func(t *testing.T) {
		n := y.node(t, node.Active, true)
		d := y.request(t, n, decommission.Reimage)
		y.agent.on(agentwire.TypeValidateClean, succeeds(dirty()), succeeds(clean(agentwire.TypeValidateClean)))
		end := y.run(t, d.ID, func(*testsuite.TestWorkflowEnvironment) {
			now := y.read(t, d.ID)
			wants(t, now, job.FailedManualIntervention, decommission.StageValidate, "validation_residue")
			if !strings.Contains(now.ErrorRemedy, "rerun drains and cleans the new installation") {
				t.Errorf("the remedy is %q", now.ErrorRemedy)
			}
		}, y.act(t, d.ID, job.Rerun))
		wants(t, end, job.Completed, decommission.StageEnable, "")
		if got := y.tasksOf(t, n, agentwire.TypeStorageCleanup); got != 2 {
			t.Errorf("storage was cleaned %d times", got)
		}
	})
	t.Run("in the middle", func(t *testing.T) { // somebody else may have taken the machine
		wellAgain(y)
		y.script.calls = nil
		d := y.request(t, y.node(t, node.Active, true), decommission.Reimage)
		y.script.fails(1, bringup.ConfigureStorage,
			job.Failure{Class: bringup.StateAmbiguity, Code: job.CodeNamed("broken"), Message: "it broke", Final: true})
		end := y.run(t, d.ID, y.act(t, d.ID, job.Rerun))
		wants(t, end, job.Completed, decommission.StageEnable, "")
		looked := 0
		for _, call := range y.script.calls {
			if call == bringup.ReleaseMAASNode {
				looked++
			}
		}
		if looked != 2 {
			t.Errorf("the machine was looked at %d times before it was installed", looked)
		}
	})
}

// A new installation settles what was found about the old one, and not what a
// person decided about the machine.
func TestAReimageKeepsAnOperatorsQuarantine(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	for name, c := range map[string]struct {
		who, want string
	}{
		"of an operator": {"user", "quarantined"}, "of reconciliation": {"system", "active schedulable"},
	} {
		t.Run(name, func(t *testing.T) {
			wellAgain(y)
			n := y.node(t, node.Active, true)
			y.move(t, n, node.Quarantine, "a fan fails")
			y.exec(t, `UPDATE node_events SET actor_kind = $2 WHERE node_id = $1 AND to_status = 'quarantined'`, n, c.who)
			for range 2 { // also what the first one left
				end := y.run(t, y.request(t, n, decommission.Reimage).ID)
				wants(t, end, job.Completed, decommission.StageEnable, "")
				if got := y.stands(t, n); got != c.want {
					t.Fatalf("the node is %s, want %s", got, c.want)
				}
				if kept := c.want == "quarantined"; kept != (len(end.FollowUps) == 1) ||
					kept && !strings.Contains(end.FollowUps[0].Why, "a fan fails") {
					t.Errorf("left to be done: %+v", end.FollowUps)
				}
			}
		})
	}
}
