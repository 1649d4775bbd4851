package onboarding_test

import (
	"context"
	"slices"
	"testing"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/durable"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/job"
	"gpuaas/controlplane/internal/work/onboarding"
)

// restarting is a parked onboarding of which a clean restart was asked for.
func (y *yard) restarting(tb testing.TB, o id.Onboarding) onboarding.Onboarding {
	tb.Helper()
	y.exec(tb, `UPDATE node_onboardings SET status = 'failed_manual_intervention', current_stage = $2, failure_class = 'state_ambiguity', parked_at = clock_timestamp()
		WHERE id = $1`, o, bringup.DeployViaMAAS)
	now, err := y.service.Act(y.ctx, o, job.RestartClean, "from nothing")
	if err != nil || now.Status != job.Compensating {
		tb.Fatalf("%+v %v", now, err)
	}
	return now
}

// A restart can be called off while it is undone: the job then ends, and what
// was undoing it for a restart can do nothing any more.
func TestACancelStopsARestart(t *testing.T) {
	y := newYard(t)
	restarted := y.restarting(t, y.request(t, 1).ID)
	if legal := onboarding.LegalActions(restarted); !slices.Equal(legal, []job.Trigger{job.Cancel}) {
		t.Errorf("legal: %v", legal)
	}
	cancelled, err := y.service.Act(y.ctx, restarted.ID, job.Cancel, "stop this")
	if err != nil || cancelled.Status != job.Compensating || cancelled.Action != job.Cancel ||
		cancelled.Epoch != restarted.Epoch+1 {
		t.Fatalf("%+v %v", cancelled, err)
	}
	if legal := onboarding.LegalActions(cancelled); len(legal) != 0 {
		t.Errorf("legal after it: %v", legal)
	}
	if _, err := y.service.Act(y.ctx, restarted.ID, job.RestartClean,
		"after all"); fault.CodeOf(err) != "action_not_allowed" {
		t.Errorf("a restart of a cancelled job: %v", err)
	}
	if _, err := execute(t, y.service.RunOne,
		callOf(restarted, job.StageCompensate, 1)); fault.CodeOf(err) != durable.CodeSuperseded {
		t.Errorf("the restart goes on: %v", err)
	}
	y.ends(t, cancelled)
}

// ends carries out an undoing that must end the job and reset nothing.
func (y *yard) ends(t *testing.T, o onboarding.Onboarding) {
	t.Helper()
	y.script.on(job.StageCompensate, func(_ context.Context, w *bringup.Work, _ int) (job.Result, error) {
		if w.Reset {
			t.Errorf("%s is reset", w.Hostname)
		}
		return job.Result{}, nil
	})
	turn, err := execute(t, y.service.RunOne, callOf(o, job.StageCompensate, 1))
	if now := y.read(t, o.ID); err != nil || turn.Do != durable.TurnEnd || now.Status != job.Cancelled ||
		now.CompletedAt == nil {
		t.Errorf("%+v %v: %s at %s", turn, err, now.Status, now.Stage)
	}
}

func TestCancellingABatchStopsItsRestarts(t *testing.T) {
	y := newYard(t)
	b, rows, err := y.service.RequestBatch(y.ctx, y.asked(1, 3))
	if err != nil {
		t.Fatal(err)
	}
	y.admitted(t, b)
	y.started(t, b)
	y.restarting(t, rows[0].ID)
	undone := y.restarting(t, rows[1].ID)
	if undone, err = y.service.Act(y.ctx, undone.ID, job.Cancel, "this one not"); err != nil {
		t.Fatal(err)
	}
	now, err := y.service.CancelBatch(y.ctx, b.ID, "stop all")
	if err != nil || now.Counts[job.Compensating] != 3 {
		t.Fatalf("%+v %v", now, err)
	}
	y.ends(t, y.read(t, rows[0].ID))
	if after := y.read(t, undone.ID); after.Epoch != undone.Epoch {
		t.Errorf("a cancel that was under way was disturbed: %+v", after)
	}
}

// The workflow of a job that is being undone is gone: repeating the action is
// what brings it back, and changes nothing else.
func TestRepeatingAnActionStartsAWorkflowThatIsGone(t *testing.T) {
	for action, want := range map[job.Trigger]job.Status{job.Cancel: job.Cancelled, job.RestartClean: job.Completed} {
		t.Run(string(action), func(t *testing.T) {
			y := newYard(t)
			o := y.brought(t, 1, job.FailedManualIntervention, bringup.WaitForReady)
			o, err := y.service.Act(y.ctx, o.ID, action, "because")
			if err != nil {
				t.Fatal(err)
			}
			y.exec(t, `DELETE FROM outbox_events`) // Temporal has forgotten all that it was told
			before := y.snapshot(t, o.ID)
			if again, err := y.service.Act(y.ctx, o.ID, action, "nothing happens"); err != nil || again.Epoch != o.Epoch ||
				y.snapshot(t, o.ID) != before {
				t.Errorf("%+v %v", again, err)
			}
			y.serve(t)
			y.becomes(t, o.ID, want)
		})
	}
	y := newYard(t)
	o := y.brought(t, 1, job.Cancelled, bringup.WaitForReady)
	y.exec(t, `DELETE FROM outbox_events`)
	if _, err := y.service.Act(y.ctx, o.ID, job.Cancel, "again"); err != nil ||
		y.count(t, `SELECT count(*) FROM outbox_events`) != 0 {
		t.Errorf("a workflow was started for a job that has ended: %v", err)
	}
}
