package agenttask_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/postgres/postgrestest"
	"gpuaas/controlplane/internal/fleet/agenttask"
)

func TestAResultEndsATask(t *testing.T) {
	w := newWorld(t)
	task, err := w.enqueue(w.ctx, agenttask.Request{Node: w.node(t), Type: agentwire.TypeDrain, AwaitWorkflow: "wf-1"})
	if err != nil {
		t.Fatal(err)
	}
	w.fetch(t, task)
	r := succeeded(t, 1, agentwire.DrainOutput{Draining: true, UsersRevoked: []string{"u1"}})
	r.StartedAt = w.clock.now().Add(time.Second)
	for range 2 { // the agent repeats the call after a lost answer
		if err := w.queue.Result(t.Context(), task.Node, task.ID, r); err != nil {
			t.Fatal(err)
		}
	}
	now := w.wants(t, task, agenttask.Succeeded, "")
	var out agentwire.DrainOutput
	if err := json.Unmarshal(now.Output, &out); err != nil || !out.Draining || out.UsersRevoked[0] != "u1" {
		t.Errorf("output is %s, %v", now.Output, err)
	}
	if now.AgentVersion != "1.2.3" || now.FinishedAt == nil || now.LeaseExpiresAt != nil ||
		!now.StartedAt.Equal(r.StartedAt) {
		t.Errorf("row is %+v", now)
	}
	for what, sql := range map[string]string{
		"event": `SELECT count(*) FROM outbox_events WHERE event_type = 'node_task.finished' AND aggregate_id = $1 AND correlation_id = 'corr-1'
			AND envelope->'payload'->>'status' = 'succeeded'`,
		"signal": `SELECT count(*) FROM outbox_events WHERE event_type = 'workflow.signal' AND destination = 'temporal' AND aggregate_id = 'wf-1'
			AND envelope->>'name' = 'node-task-' || $1 AND envelope->'payload'->>'status' = 'succeeded'`,
	} {
		if n := w.count(t, sql, task.ID.String()); n != 1 {
			t.Errorf("%d times %s", n, what)
		}
	}
	other := agentwire.ResultRequest{Attempt: 1, Status: agentwire.ResultFailed, Error: &agentwire.TaskError{Code: "x"}}
	err = w.queue.Result(t.Context(), task.Node, task.ID, other)
	if fault.KindOf(err) != fault.Conflict || fault.CodeOf(err) != agentwire.CodeTaskFinal {
		t.Errorf("another outcome: %v", err)
	}
	err = w.queue.Result(t.Context(), task.Node, task.ID, succeeded(t, 1, agentwire.DrainOutput{}))
	wantCode(t, "another output", err, agentwire.CodeTaskFinal)
	w.wants(t, task, agenttask.Succeeded, "")
}

func TestResultsAreTakenForWhatTheyAre(t *testing.T) {
	failure := &agentwire.TaskError{Code: "disk_full", Message: "no space", Remedy: "make some"}
	for name, c := range map[string]struct {
		r      agentwire.ResultRequest
		cancel bool
		status agenttask.Status
		code   string
	}{
		"failed": {
			agentwire.ResultRequest{Status: "failed", Error: failure},
			false, agenttask.Failed,
			"disk_full",
		},
		"failed without a word": {
			agentwire.ResultRequest{Status: "failed"},
			false, agenttask.Failed,
			"node_task_failed",
		},
		"failed with output": {agentwire.ResultRequest{
			Status: "failed", Error: failure,
			Output: []byte(`{"draining":true}`),
		}, false, agenttask.Failed, "disk_full"},
		"failed with odd output": {agentwire.ResultRequest{
			Status: "failed", Error: failure,
			Output: []byte(`{"odd":true}`),
		}, false, agenttask.Failed, "disk_full"},
		"refused": {agentwire.ResultRequest{
			Status: "refused",
			Error:  &agentwire.TaskError{Code: "bad_signature"},
		}, false, agenttask.Failed, "bad_signature"},
		"cancelled on request": {
			agentwire.ResultRequest{Status: "cancelled"},
			true, agenttask.Cancelled,
			"node_task_cancelled",
		},
		"stopped because it overran": {
			agentwire.ResultRequest{Status: "cancelled"},
			false, agenttask.Expired,
			agenttask.CodeOverran,
		},
		"succeeded despite a cancel": {
			agentwire.ResultRequest{Status: "succeeded", Output: []byte(`{}`)},
			true,
			agenttask.Succeeded, "",
		},
		"success with other output": {
			agentwire.ResultRequest{Status: "succeeded", Output: []byte(`{"odd":1}`)},
			false,
			agenttask.Failed, agenttask.CodeOutputInvalid,
		},
		"success with broken output": {
			agentwire.ResultRequest{Status: "succeeded", Output: []byte(`{`)},
			false,
			agenttask.Failed, agenttask.CodeOutputInvalid,
		},
		"success without output": {
			agentwire.ResultRequest{Status: "succeeded"},
			false, agenttask.Failed,
			agenttask.CodeOutputInvalid,
		},
		"success with what no row is": {agentwire.ResultRequest{
			Status: "succeeded",
			Output: []byte(`{"users_left":["\u0000"]}`),
		}, false, agenttask.Failed, agenttask.CodeOutputInvalid},
		"words that no row takes": {
			agentwire.ResultRequest{
				Status: "failed",
				Error:  &agentwire.TaskError{Code: "x\x00y", Message: strings.Repeat("ä\xff", 9000)},
			},
			false, agenttask.Failed,
			"x\uFFFDy",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			task := w.ask(t, w.node(t), agentwire.TypeDrain)
			w.fetch(t, task)
			if c.cancel {
				if _, err := w.commands.Cancel(w.ctx, task.ID, "changed my mind"); err != nil {
					t.Fatal(err)
				}
			}
			c.r.Attempt = 1
			for range 2 {
				if err := w.queue.Result(t.Context(), task.Node, task.ID, c.r); err != nil {
					t.Fatal(err)
				}
			}
			now := w.wants(t, task, c.status, c.code)
			if strings.Contains(string(now.Output), "odd") {
				t.Errorf("output is %s", now.Output)
			}
		})
	}
	w := newWorld(t)
	task := w.ask(t, w.node(t), agentwire.TypeDrain)
	w.fetch(t, task)
	err := w.queue.Result(t.Context(), task.Node, task.ID, agentwire.ResultRequest{Attempt: 1, Status: "great"})
	wantCode(t, "unknown status", err, "node_task_result_invalid")
}

func TestARefusalIsAudited(t *testing.T) {
	w := newWorld(t)
	task := w.ask(t, w.node(t), agentwire.TypeDrain)
	w.fetch(t, task)
	r := agentwire.ResultRequest{
		Attempt: 1, Status: agentwire.ResultRefused,
		Error: &agentwire.TaskError{Code: string(agentwire.RefusedBadSignature), Message: "not one of signer s1"},
	}
	for range 2 {
		if err := w.queue.Result(t.Context(), task.Node, task.ID, r); err != nil {
			t.Fatal(err)
		}
	}
	n := w.count(t, `SELECT count(*) FROM audit_logs WHERE action = 'node_task.refuse' AND target_id = $1 AND result = 'denied' AND reason = 'bad_signature'
		AND actor_kind = 'node' AND actor_id = 'node:' || $2 AND correlation_id = 'corr-1' AND metadata->>'detail' = 'not one of signer s1'`,
		task.ID.String(), task.Node.String())
	if n != 1 {
		t.Errorf("%d audit entries", n)
	}
}

func TestOnlyItsNodeMayEndRenewOrUseATask(t *testing.T) {
	w := newWorld(t)
	task, other := w.ask(t, w.node(t), agentwire.TypeDrain), w.node(t)
	w.fetch(t, task)
	for name, c := range map[string]struct {
		node    id.Node
		task    id.NodeTask
		attempt int
		code    string
	}{
		"another node":                  {other, task.ID, 1, agentwire.CodeTaskNotYours},
		"no task":                       {task.Node, id.New[id.NodeTask](), 1, agentwire.CodeTaskNotYours},
		"an attempt that was not":       {task.Node, task.ID, 2, "node_task_attempt_unknown"},
		"no attempt":                    {task.Node, task.ID, 0, "node_task_attempt_unknown"},
		"a task that was not given out": {other, w.ask(t, other, agentwire.TypeDrain).ID, 1, "node_task_attempt_unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			err := w.queue.Result(t.Context(), c.node, c.task,
				agentwire.ResultRequest{Attempt: c.attempt, Status: agentwire.ResultFailed})
			wantCode(t, "result", err, c.code)
			_, err = w.queue.Progress(t.Context(), c.node, c.task, agentwire.ProgressRequest{Attempt: c.attempt})
			wantCode(t, "progress", err, c.code)
			_, err = w.queue.Bound(t.Context(), c.node, c.task, c.attempt)
			wantCode(t, "bound", err, c.code)
		})
	}
	w.wants(t, task, agenttask.Dispatched, "")
	n := w.count(t, `SELECT count(*) FROM audit_logs WHERE action = 'node_task.touch' AND target_id = $1 AND result = 'denied'
		AND reason = 'node_task_not_yours' AND actor_id = 'node:' || $2`, task.ID.String(), other.String())
	if n != 3 {
		t.Errorf("%d attempts of another node were audited, want 3", n)
	}
}

func TestBoundNeedsALiveLease(t *testing.T) {
	w := newWorld(t)
	task := w.ask(t, w.node(t), agentwire.TypeDrain)
	w.fetch(t, task)
	if got, err := w.queue.Bound(t.Context(), task.Node, task.ID, 1); err != nil || got.ID != task.ID {
		t.Fatal(err)
	}
	w.clock.pass(agentwire.Lease)
	_, err := w.queue.Bound(t.Context(), task.Node, task.ID, 1)
	wantCode(t, "stale lease", err, "node_task_not_held")
	w.sweep(t, 1)
	_, err = w.queue.Bound(t.Context(), task.Node, task.ID, 1)
	wantCode(t, "requeued", err, "node_task_not_held")
	w.fetch(t, task)
	_, err = w.queue.Bound(t.Context(), task.Node, task.ID, 1)
	wantCode(t, "earlier attempt", err, "node_task_not_held")
	if _, err = w.queue.Bound(t.Context(), task.Node, task.ID, 2); err != nil {
		t.Error(err)
	}
	w.exec(t, `UPDATE nodes SET generation = 2 WHERE id = $1`, task.Node)
	_, err = w.queue.Bound(t.Context(), task.Node, task.ID, 2)
	wantCode(t, "node taken over", err, agentwire.CodeTaskFinal)
}

func TestStepsAreKeptInOrderAndOnce(t *testing.T) {
	w := newWorld(t)
	task := w.ask(t, w.node(t), agentwire.TypeDrain)
	w.fetch(t, task)
	half, odd := 50, 500
	at := w.clock.now().UTC()
	for _, steps := range [][]agentwire.Step{
		{
			{Seq: 2, Name: "b", Status: "succeeded", At: at},
			{Seq: 1, Name: "a", Status: "started", Message: "hello \x00", Percent: &half, At: at},
		},
		{
			{Seq: 2, Name: "other", Status: "failed", At: at},
			{Seq: 3, Name: strings.Repeat("n", 300), Status: "skipped", Percent: &odd, At: at},
		},
		{
			{Seq: 0, Name: "x", Status: "started", At: at},
			{Seq: 1001, Name: "x", Status: "started", At: at},
			{Seq: 4, Status: "started", At: at},
			{Seq: 5, Name: "x", Status: "odd", At: at},
		},
		nil,
	} {
		w.clock.pass(20 * time.Second)
		got, err := w.queue.Progress(t.Context(), task.Node, task.ID, agentwire.ProgressRequest{Attempt: 1, Steps: steps})
		if err != nil || got.Cancel || !got.LeaseExpiresAt.Equal(w.clock.now().Add(agentwire.Lease)) {
			t.Fatalf("%+v %v", got, err)
		}
	}
	steps, err := agenttask.Steps(t.Context(), w.db, task.ID)
	if err != nil || len(steps) != 3 {
		t.Fatalf("%+v %v", steps, err)
	}
	if s := steps[0]; s.Seq != 1 || s.Name != "a" || s.Message != "hello \uFFFD" || *s.Percent != 50 || s.Attempt != 1 ||
		!s.At.Equal(at) {
		t.Errorf("%+v", s)
	}
	if steps[1].Name != "b" || steps[1].Status != "succeeded" || len([]rune(steps[2].Name)) != 100 ||
		steps[2].Percent != nil {
		t.Errorf("%+v", steps[1:])
	}
	if now := w.now(t, task); !now.LeaseExpiresAt.Equal(w.clock.now().Add(agentwire.Lease)) {
		t.Errorf("the lease lasts until %s", now.LeaseExpiresAt)
	}
}

func TestCancel(t *testing.T) {
	w := newWorld(t)
	node := w.node(t)
	waiting := w.ask(t, node, agentwire.TypeDrain)
	if got, err := w.commands.Cancel(w.ctx, waiting.ID, "not needed"); err != nil || got.Status != agenttask.Cancelled ||
		got.Error.Message != "not needed" {
		t.Fatalf("%+v %v", got, err)
	}
	if w.poll(t, node) != nil {
		t.Error("a cancelled task was handed out")
	}
	_, err := w.commands.Cancel(w.ctx, waiting.ID, "again")
	wantCode(t, "one that has ended", err, "node_task_state_conflict")
	_, err = w.commands.Cancel(w.ctx, id.New[id.NodeTask](), "none")
	wantCode(t, "none", err, "node_task_not_found")

	running := w.ask(t, node, agentwire.TypeDrain)
	w.fetch(t, running)
	for range 2 {
		if got, err := w.commands.Cancel(w.ctx, running.ID, "enough"); err != nil || got.Status != agenttask.Dispatched ||
			!got.CancelRequested {
			t.Fatalf("%+v %v", got, err)
		}
	}
	if p, err := w.queue.Progress(t.Context(), node, running.ID, agentwire.ProgressRequest{Attempt: 1}); err != nil ||
		!p.Cancel {
		t.Errorf("the node is not told: %+v %v", p, err)
	}
	if n := w.count(t,
		`SELECT count(*) FROM audit_logs WHERE action = 'node_task.cancel' AND reason IN ('not needed', 'enough')`); n != 2 {
		t.Errorf("%d audit entries", n)
	}
}

func TestANodeThatTakesTooLongIsToldToStop(t *testing.T) {
	w := newWorld(t)
	task := w.ask(t, w.node(t), agentwire.TypeDrain)
	w.fetch(t, task)
	for minute := range 20 {
		w.clock.pass(time.Minute - time.Second)
		p, err := w.queue.Progress(t.Context(), task.Node, task.ID, agentwire.ProgressRequest{Attempt: 1})
		if late := w.clock.now().Sub(*w.now(t, task).DispatchedAt) >= 15*time.Minute; err != nil || p.Cancel != late {
			t.Fatalf("minute %d: %+v %v", minute, p, err)
		}
		w.sweep(t, 0)
	}
}

func TestWhatHasEndedStaysAsItIs(t *testing.T) {
	w := newWorld(t)
	task := w.ask(t, w.node(t), agentwire.TypeDrain)
	if _, err := w.commands.Cancel(w.ctx, task.ID, "no"); err != nil {
		t.Fatal(err)
	}
	err := w.db.InTx(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE node_tasks SET status = 'queued', finished_at = NULL WHERE id = $1`, task.ID)
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "is cancelled, which is final") {
		t.Errorf("got %v", err)
	}
	_, err = w.queue.Progress(t.Context(), task.Node, task.ID, agentwire.ProgressRequest{Attempt: 1})
	wantCode(t, "progress", err, agentwire.CodeTaskFinal)
	live := w.ask(t, w.node(t), agentwire.TypeDrain)
	if _, err := w.db.Exec(t.Context(), `DELETE FROM node_tasks WHERE id = $1`, live.ID); err == nil {
		t.Error("the product may delete tasks that have not ended")
	}
}

func TestTheDatabaseKnowsTheLifecycle(t *testing.T) {
	for _, err := range agenttask.Lifecycle.Validate() {
		t.Error(err)
	}
	db := postgrestest.New(t)
	for _, status := range agenttask.Lifecycle.Values() {
		if _, err := db.Exec(t.Context(), "SELECT $1::node_task_status", status); err != nil {
			t.Errorf("the database does not know status %s: %v", status, err)
		}
	}
	if _, err := db.Exec(t.Context(), "SELECT 'other'::node_task_status"); err == nil {
		t.Error("the database takes any status")
	}
}
