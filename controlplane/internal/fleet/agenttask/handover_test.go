package agenttask_test

import (
	"sync"
	"testing"
	"time"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/fleet/agenttask"
	"gpuaas/testkit"
)

// The machine lost power while its poll was held, and is back.
func TestANewPollEndsTheEarlierOne(t *testing.T) {
	w := newWorld(t)
	q, node := w.run(t), w.node(t)
	dead := poller(t.Context(), q, node, time.Hour)
	awaitWaiting(t, q, 1)
	alive := poller(t.Context(), q, node, time.Hour)
	if g := testkit.Receive(t, "the end of the earlier poll", dead); g.envelope != nil || g.err != nil {
		t.Errorf("%+v", g)
	}
	awaitWaiting(t, q, 1)
	task := w.ask(t, node, agentwire.TypeHeartbeatCheck)
	if g := testkit.Receive(t, "the task", alive); g.envelope == nil || g.envelope.TaskID != task.ID.String() ||
		g.envelope.Attempt != 1 {
		t.Errorf("%+v", g)
	}
}

func TestAPollThatIsOvertakenWhileItClaimsPutsBack(t *testing.T) {
	w := newWorld(t)
	q, node := w.run(t), w.node(t)
	var once sync.Once
	var alive <-chan got
	w.signer.during = func() {
		once.Do(func() {
			alive = poller(t.Context(), q, node, time.Hour)
			awaitWaiting(t, q, 2)
		})
	}
	task := w.ask(t, node, agentwire.TypeHeartbeatCheck) // one attempt only
	if g := testkit.Receive(t, "the end of the earlier poll",
		poller(t.Context(), q, node, time.Hour)); g.envelope != nil ||
		g.err != nil {
		t.Errorf("%+v", g)
	}
	if g := testkit.Receive(t, "the task", alive); g.envelope == nil || g.envelope.TaskID != task.ID.String() ||
		g.envelope.Attempt != 1 {
		t.Errorf("%+v", g)
	}
}

func TestASecretsEngineThatHangsBurnsNoAttempt(t *testing.T) {
	w := newWorld(t)
	task := w.ask(t, w.node(t), agentwire.TypeHeartbeatCheck) // one attempt only
	w.signer.hangs = true
	w.queue.SignWithin(20 * time.Millisecond)
	for range 2 {
		g := testkit.Receive(t, "the end of the poll", poller(t.Context(), w.queue, task.Node, 0))
		if g.envelope != nil || fault.CodeOf(g.err) != "node_task_unsigned" || fault.KindOf(g.err) != fault.Unavailable {
			t.Fatalf("%+v", g)
		}
		if now := w.now(t, task); now.Status != agenttask.Queued || now.Attempt != 0 || now.LeaseExpiresAt != nil {
			t.Fatalf("the task is %+v", now)
		}
	}
	w.signer.hangs = false
	w.queue.SignWithin(time.Minute)
	w.fetch(t, task)
}

// What a node must not have after all goes to its other poll, uncounted.
func TestATaskThatIsTakenBackIsHandedOutAgain(t *testing.T) {
	w := newWorld(t)
	q, node := w.run(t), w.node(t)
	task := w.ask(t, node, agentwire.TypeHeartbeatCheck)
	e := w.fetch(t, task)
	alive := poller(t.Context(), q, node, time.Hour)
	awaitWaiting(t, q, 1)
	if err := w.queue.TakeBack(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	if g := testkit.Receive(t, "the task", alive); g.envelope == nil || g.envelope.TaskID != task.ID.String() ||
		g.envelope.Attempt != 1 {
		t.Fatalf("%+v", g)
	}
	// One that has ended stays as it ended.
	if err := w.queue.Result(t.Context(), node, task.ID,
		agentwire.ResultRequest{Attempt: 1, Status: agentwire.ResultFailed}); err != nil {
		t.Fatal(err)
	}
	if err := w.queue.TakeBack(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	if now := w.now(t, task); now.Status != agenttask.Failed || now.Attempt != 1 {
		t.Errorf("the task is %+v", now)
	}
}

// A cancel that comes between claim and put-back finds the task handed out, and
// no agent that could be told.
func TestATaskThatIsCancelledBeforeItsNodeHasItEnds(t *testing.T) {
	for name, interrupt := range map[string]func(*testing.T, *world, agenttask.Task, func()){
		"because it could not be signed": func(t *testing.T, w *world, task agenttask.Task, cancel func()) {
			w.signer.during, w.signer.failure = cancel, errAway
			_, err := w.queue.Wait(t.Context(), task.Node, 1, 0)
			wantCode(t, "the poll", err, "node_task_unsigned")
		},
		"because it was taken back": func(t *testing.T, w *world, task agenttask.Task, cancel func()) {
			e := w.fetch(t, task)
			cancel()
			if err := w.queue.TakeBack(t.Context(), e); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			task, err := w.enqueue(w.ctx, agenttask.Request{Node: w.node(t), Type: agentwire.TypeDrain, AwaitWorkflow: "wf-1"})
			if err != nil {
				t.Fatal(err)
			}
			interrupt(t, w, task, func() {
				if now, err := w.commands.Cancel(w.ctx, task.ID, "enough"); err != nil || now.Status != agenttask.Dispatched {
					t.Errorf("cancel: %+v, %v", now, err)
				}
			})
			if now := w.wants(t, task, agenttask.Cancelled, agenttask.CodeCancelled); now.Attempt != 0 || now.FinishedAt == nil {
				t.Errorf("the task is %+v", now)
			}
			w.signer.during, w.signer.failure = nil, nil
			if e := w.poll(t, task.Node); e != nil {
				t.Errorf("it was handed out: %+v", e)
			}
			n := w.count(t,
				`SELECT count(*) FROM outbox_events WHERE event_type IN ('workflow.signal', 'node_task.finished') AND correlation_id = 'corr-1'`)
			if n != 2 {
				t.Errorf("the workflow and the readers of events were told %d times", n)
			}
		})
	}
}
