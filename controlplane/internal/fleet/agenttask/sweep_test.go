package agenttask_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/agenttask"
)

func TestATaskOfASilentNodeIsHandedOutAgain(t *testing.T) {
	w := newWorld(t)
	task := w.ask(t, w.node(t), agentwire.TypeDrain)
	w.fetch(t, task)
	w.clock.pass(agentwire.Lease - time.Second)
	w.sweep(t, 0)
	w.clock.pass(time.Second)
	w.sweep(t, 1)
	w.wants(t, task, agenttask.Queued, "")
	if e := w.fetch(t, task); e.Attempt != 2 {
		t.Errorf("attempt %d", e.Attempt)
	}
	w.sweep(t, 0)
}

func TestATaskThatIsAliveIsNeverHandedOutAgain(t *testing.T) {
	w := newWorld(t)
	task := w.ask(t, w.node(t), agentwire.TypeGPUScrub)
	w.fetch(t, task)
	for range 60 {
		w.clock.pass(agentwire.Lease - time.Millisecond)
		w.sweep(t, 0)
		if e := w.poll(t, task.Node); e != nil {
			t.Fatalf("handed out beside itself: %+v", e)
		}
		if _, err := w.queue.Progress(t.Context(), task.Node, task.ID, agentwire.ProgressRequest{Attempt: 1}); err != nil {
			t.Fatal(err)
		}
	}
	if now := w.wants(t, task, agenttask.Dispatched, ""); now.Attempt != 1 {
		t.Errorf("attempt %d", now.Attempt)
	}
}

func TestAttemptsAreCounted(t *testing.T) {
	w := newWorld(t)
	task := w.ask(t, w.node(t), agentwire.TypeDrain)
	for attempt := 1; attempt <= 3; attempt++ {
		if e := w.fetch(t, task); e.Attempt != attempt {
			t.Fatalf("attempt %d, want %d", e.Attempt, attempt)
		}
		w.clock.pass(2 * agentwire.Lease)
		w.sweep(t, 1)
	}
	w.wants(t, task, agenttask.Expired, agenttask.CodeSilent)
	err := w.queue.Result(t.Context(), task.Node, task.ID, succeeded(t, 3, agentwire.DrainOutput{}))
	wantCode(t, "result of what expired", err, agentwire.CodeTaskFinal)
}

// Attempts of a task are one execution, so the report of any attempt is true,
// wherever the task is by then.
func TestALateResultCounts(t *testing.T) {
	for name, again := range map[string]bool{
		"while it waits to be handed out again": false,
		"after it was handed out again":         true,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			task := w.ask(t, w.node(t), agentwire.TypeDrain)
			w.fetch(t, task)
			w.clock.pass(2 * agentwire.Lease)
			w.sweep(t, 1)
			if again {
				w.fetch(t, task)
			}
			if p, err := w.queue.Progress(t.Context(), task.Node, task.ID, agentwire.ProgressRequest{Attempt: 1}); err != nil ||
				p.Cancel {
				t.Fatalf("a late sign of life: %+v %v", p, err)
			}
			if err := w.queue.Result(t.Context(), task.Node, task.ID, succeeded(t, 1, agentwire.DrainOutput{})); err != nil {
				t.Fatal(err)
			}
			w.wants(t, task, agenttask.Succeeded, "")
			if w.poll(t, task.Node) != nil {
				t.Error("it was handed out after it had ended")
			}
		})
	}
}

func TestTasksEndWhenNobodyCanDoThem(t *testing.T) {
	for name, c := range map[string]struct {
		until  func(*testing.T, *world, agenttask.Task)
		status agenttask.Status
		code   string
	}{
		"never fetched": {
			func(_ *testing.T, w *world, _ agenttask.Task) { w.clock.pass(75 * time.Minute) },
			agenttask.Expired, agenttask.CodeNotFetched,
		},
		"fetched once, then never again": {func(t *testing.T, w *world, task agenttask.Task) {
			w.fetch(t, task)
			w.clock.pass(agentwire.Lease)
			w.sweep(t, 1)
			w.clock.pass(75 * time.Minute)
		}, agenttask.Expired, agenttask.CodeSilent},
		"silent beyond the deadline": {func(t *testing.T, w *world, task agenttask.Task) {
			w.fetch(t, task)
			w.clock.pass(75 * time.Minute)
		}, agenttask.Expired, agenttask.CodeSilent},
		"silent when it was to stop": {func(t *testing.T, w *world, task agenttask.Task) {
			w.fetch(t, task)
			if _, err := w.commands.Cancel(w.ctx, task.ID, "stop"); err != nil {
				t.Fatal(err)
			}
			w.clock.pass(agentwire.Lease)
		}, agenttask.Cancelled, agenttask.CodeCancelled},
		"node taken over, task waiting": {func(t *testing.T, w *world, task agenttask.Task) {
			w.exec(t, `UPDATE nodes SET generation = generation + 1 WHERE id = $1`, task.Node)
		}, agenttask.Cancelled, agenttask.CodeSuperseded},
		"node taken over, task handed out": {func(t *testing.T, w *world, task agenttask.Task) {
			w.fetch(t, task)
			w.exec(t, `UPDATE nodes SET generation = generation + 1 WHERE id = $1`, task.Node)
			err := w.queue.Result(t.Context(), task.Node, task.ID, succeeded(t, 1, agentwire.DrainOutput{}))
			wantCode(t, "result of an earlier generation", err, agentwire.CodeTaskFinal)
		}, agenttask.Cancelled, agenttask.CodeSuperseded},
		"node gone": {func(t *testing.T, w *world, task agenttask.Task) {
			w.exec(t, `UPDATE nodes SET status = 'deleted' WHERE id = $1`, task.Node)
		}, agenttask.Cancelled, agenttask.CodeSuperseded},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			task, err := w.enqueue(w.ctx, agenttask.Request{Node: w.node(t), Type: agentwire.TypeDrain, AwaitWorkflow: "wf-1"})
			if err != nil {
				t.Fatal(err)
			}
			c.until(t, w, task)
			w.sweep(t, 1)
			w.wants(t, task, c.status, c.code)
			w.sweep(t, 0)
			n := w.count(t,
				`SELECT count(*) FROM outbox_events WHERE event_type IN ('workflow.signal', 'node_task.finished') AND correlation_id = 'corr-1'`)
			if n != 2 {
				t.Errorf("the workflow and the readers of events were told %d times", n)
			}
		})
	}
}

// A node that gives signs of life for ever does not keep an operation alive for
// ever. A step that must not be interrupted gets the time that it may need.
func TestAnOperationThatNeverEndsIsGivenUp(t *testing.T) {
	for name, c := range map[string]struct {
		kind, with string
		seconds    int
		cancel     bool
		patience   time.Duration
		status     agenttask.Status
		code       string
	}{
		"what can be interrupted": {
			agentwire.StepHealthCheck, `{"probes":[{"kind":"file","path":"/etc/os-release"}]}`, 7200, false,
			15 * time.Minute, agenttask.Expired, agenttask.CodeOverran,
		},
		"what must not be": {
			agentwire.StepServiceControl, `{"unit":"a.service","action":"start"}`, 7200, false, 121 * time.Minute,
			agenttask.Expired, agenttask.CodeOverran,
		},
		"what was to stop": {
			agentwire.StepServiceControl, `{"unit":"a.service","action":"start"}`, 60, true, 15 * time.Minute,
			agenttask.Cancelled, agenttask.CodeCancelled,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			task, err := w.enqueue(w.ctx, agenttask.Request{
				Node: w.node(t), Type: agentwire.TypeOperationRun, Owner: row{}, Window: time.Hour, Patience: 10 * time.Minute,
				Params: agentwire.OperationRunParams{
					OperationID: id.NewString(), TargetID: id.NewString(), Definition: "test.op@v1",
					Digest: "sha256:" + strings.Repeat("0", 64), Steps: []agentwire.OperationStep{{
						ID: "one", Kind: c.kind, With: json.RawMessage(c.with), TimeoutSeconds: c.seconds, Attempts: 1,
						OnFailure: agentwire.OnFailureStop,
					}},
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			w.fetch(t, task)
			if c.cancel {
				if _, err := w.commands.Cancel(w.ctx, task.ID, "enough"); err != nil {
					t.Fatal(err)
				}
			}
			w.clock.pass(time.Hour + c.patience - time.Second)
			if _, err := w.queue.Progress(t.Context(), task.Node, task.ID, agentwire.ProgressRequest{Attempt: 1}); err != nil {
				t.Fatal(err)
			}
			w.sweep(t, 0)
			w.clock.pass(time.Second)
			w.sweep(t, 1)
			w.wants(t, task, c.status, c.code)
			_, err = w.queue.Progress(t.Context(), task.Node, task.ID, agentwire.ProgressRequest{Attempt: 1})
			wantCode(t, "a sign of life after the end", err, agentwire.CodeTaskFinal)
		})
	}
}

// Nobody stays let in, and nothing waits for ever, because a node says again and again
// that it goes on.
func TestATaskThatNeverEndsIsGivenUp(t *testing.T) {
	for kind, c := range map[string]struct {
		params  any
		patient time.Duration
	}{
		agentwire.TypeDrain: {agentwire.DrainParams{}, 30 * time.Minute},
		agentwire.TypeProvisionUser: {agentwire.ProvisionUserParams{
			AllocationID: id.NewString(), Username: "alice", UID: 20000, GID: 20000, AuthorizedKeys: []string{},
		}, 30 * time.Minute},
		agentwire.TypeGPUScrub: {agentwire.GPUScrubParams{}, time.Hour},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			task, err := w.enqueue(w.ctx, agenttask.Request{Node: w.node(t), Type: kind, Owner: row{}, Params: c.params})
			if err != nil {
				t.Fatal(err)
			}
			w.fetch(t, task)
			w.clock.pass(c.patient - time.Second)
			if _, err := w.queue.Progress(t.Context(), task.Node, task.ID, agentwire.ProgressRequest{Attempt: 1}); err != nil {
				t.Fatal(err)
			}
			w.sweep(t, 0)
			w.clock.pass(time.Second)
			w.sweep(t, 1)
			w.wants(t, task, agenttask.Expired, agenttask.CodeOverran)
		})
	}
}

func TestASweepTakesManyBites(t *testing.T) {
	w := newWorld(t)
	node := w.node(t)
	w.exec(t, `INSERT INTO node_tasks (id, node_id, type, params, concurrency_class, generation, max_attempts, deadline_at, requested_by, correlation_id)
		SELECT gen_random_uuid(), $1, 'node.heartbeat_check', '{}', 'concurrent', 1, 1, clock_timestamp() - interval '1 hour', 'x', 'c' FROM generate_series(1, 1100)`, node)
	w.sweep(t, 1100)
}
