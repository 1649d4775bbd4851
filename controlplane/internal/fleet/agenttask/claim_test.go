package agenttask_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/otel/trace"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/agenttask"
	"gpuaas/controlplane/internal/fleet/node"
)

func TestATaskReachesItsNodeSignedAndTraced(t *testing.T) {
	w := newWorld(t)
	node := w.node(t)
	span := trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2},
		TraceFlags: trace.FlagsSampled,
	})
	task, err := w.enqueue(trace.ContextWithSpanContext(w.ctx, span), agenttask.Request{
		Node: node, Type: agentwire.TypeDrain, Params: agentwire.DrainParams{Reason: "<b> & „ü“", RevokeUsers: true},
		Reason: "maintenance",
	})
	if err != nil {
		t.Fatal(err)
	}
	e := w.fetch(t, task)
	verified, refusal := w.signer.trusted.Verify(*e, node.String(), 1, w.clock.now())
	if refusal != nil {
		t.Fatal(refusal)
	}
	if p, ok := verified.Params.(*agentwire.DrainParams); !ok || p.Reason != "<b> & „ü“" || !p.RevokeUsers {
		t.Errorf("parameters arrived as %+v", verified.Params)
	}
	if e.CorrelationID != "corr-1" || e.TraceParent != "00-"+span.TraceID().String()+"-"+span.SpanID().String()+"-01" ||
		e.Attempt != 1 ||
		!e.IssuedAt.Equal(w.clock.now()) || !e.ExpiresAt.Equal(w.clock.now().Add(15*time.Minute)) {
		t.Errorf("envelope is %+v", e)
	}
	now := w.wants(t, task, agenttask.Dispatched, "")
	if now.SignerVersion != "s1" || now.TraceParent != e.TraceParent || now.RequestedBy != "u1" ||
		!now.LeaseExpiresAt.Equal(w.clock.now().Add(agentwire.Lease)) {
		t.Errorf("row is %+v", now)
	}
	if w.poll(t, node) != nil {
		t.Error("it was handed out twice")
	}
	for what, sql := range map[string]string{
		"audit": `SELECT count(*) FROM audit_logs WHERE action = 'node_task.create' AND target_id = $1 AND reason = 'maintenance' AND actor_id = 'u1'`,
		"event": `SELECT count(*) FROM outbox_events WHERE event_type = 'node_task.queued' AND aggregate_id = $1 AND correlation_id = 'corr-1'`,
	} {
		if n := w.count(t, sql, task.ID.String()); n != 1 {
			t.Errorf("%d entries of %s", n, what)
		}
	}
}

func TestAnAttemptNeverOutlivesTheDeadline(t *testing.T) {
	w := newWorld(t)
	task := w.ask(t, w.node(t), agentwire.TypeDrain) // may wait an hour, and take 15 minutes
	w.clock.pass(70 * time.Minute)
	if e := w.fetch(t, task); !e.ExpiresAt.Equal(task.DeadlineAt.UTC()) {
		t.Errorf("expires at %s, the deadline is %s", e.ExpiresAt, task.DeadlineAt)
	}
	late := w.ask(t, w.node(t), agentwire.TypeDrain)
	w.clock.pass(75 * time.Minute)
	if e := w.poll(t, late.Node); e != nil {
		t.Errorf("handed out after its deadline: %+v", e)
	}
}

func TestOnlyItsNodeInItsGenerationCanClaim(t *testing.T) {
	w := newWorld(t)
	mine, other := w.node(t), w.node(t)
	task := w.ask(t, mine, agentwire.TypeDrain)
	if e := w.poll(t, other); e != nil {
		t.Errorf("another node got %+v", e)
	}
	for _, generation := range []int64{0, 2} {
		if e, err := w.queue.Wait(t.Context(), mine, generation, 0); e != nil || err != nil {
			t.Errorf("generation %d got %+v, %v", generation, e, err)
		}
	}
	w.exec(t, `UPDATE nodes SET generation = 2 WHERE id = $1`, mine)
	if e := w.poll(t, mine); e != nil {
		t.Errorf("a poll of the old generation got %+v", e)
	}
	if e, err := w.queue.Wait(t.Context(), mine, 2, 0); e != nil || err != nil {
		t.Errorf("the new generation got a task of the old: %+v, %v", e, err)
	}
	if now := w.now(t, task); now.Status != agenttask.Queued || now.Attempt != 0 {
		t.Errorf("the task moved: %+v", now)
	}
}

func TestOfTwoPollsOneGetsTheTask(t *testing.T) {
	w := newWorld(t)
	node, replicas := w.node(t), w.replicas(2)
	for i := range 200 {
		task := w.ask(t, node, agentwire.TypeDrain)
		var group sync.WaitGroup
		got := make(chan *agentwire.Envelope, 2)
		for _, q := range replicas {
			group.Go(func() {
				e, err := q.Wait(t.Context(), node, 1, 0)
				if err != nil {
					t.Error(err)
				}
				got <- e
			})
		}
		group.Wait()
		a, b := <-got, <-got
		if (a == nil) == (b == nil) {
			t.Fatalf("round %d: the polls got %v and %v", i, a, b)
		}
		if err := w.queue.Result(t.Context(), node, task.ID, succeeded(t, 1, agentwire.DrainOutput{})); err != nil {
			t.Fatal(err)
		}
	}
}

// Two polls, two tasks that must not run side by side: the second poll must get
// nothing, however close they are.
func TestOfTwoPollsOneGetsATaskThatChangesTheNode(t *testing.T) {
	w := newWorld(t)
	node, replicas := w.node(t), w.replicas(4)
	for i := range 100 {
		tasks := []agenttask.Task{w.ask(t, node, agentwire.TypeDrain), w.ask(t, node, agentwire.TypeProvisionUser)}
		var group sync.WaitGroup
		for _, q := range replicas {
			group.Go(func() {
				if _, err := q.Wait(t.Context(), node, 1, 0); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		if n := w.count(t, `SELECT count(*) FROM node_tasks WHERE node_id = $1 AND status = 'dispatched'`, node); n != 1 {
			t.Fatalf("round %d: %d tasks that change the node were handed out at once", i, n)
		}
		if w.now(t, tasks[0]).Status == agenttask.Queued {
			slices.Reverse(tasks)
		}
		for _, task := range tasks {
			if w.now(t, task).Status == agenttask.Queued {
				w.fetch(t, task)
			}
			r := agentwire.ResultRequest{Attempt: 1, Status: agentwire.ResultFailed}
			if err := w.queue.Result(t.Context(), node, task.ID, r); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestClassesSayWhatRunsBesideWhat(t *testing.T) {
	for name, c := range map[string]struct {
		running, asked string
		beside         bool
	}{
		"exclusive beside exclusive":   {agentwire.TypeDrain, agentwire.TypeGPUScrub, false},
		"user beside exclusive":        {agentwire.TypeDrain, agentwire.TypeProvisionUser, false},
		"exclusive beside user":        {agentwire.TypeProvisionUser, agentwire.TypeDrain, false},
		"user beside user":             {agentwire.TypeProvisionUser, agentwire.TypeDeprovisionUser, false},
		"concurrent beside exclusive":  {agentwire.TypeDrain, agentwire.TypeHeartbeatCheck, true},
		"exclusive beside concurrent":  {agentwire.TypeHealthProbe, agentwire.TypeDrain, true},
		"concurrent beside concurrent": {agentwire.TypeHealthProbe, agentwire.TypeHealthProbe, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			node := w.node(t)
			running := w.ask(t, node, c.running)
			w.fetch(t, running)
			asked := w.ask(t, node, c.asked)
			if c.beside {
				w.fetch(t, asked)
				return
			}
			if e := w.poll(t, node); e != nil {
				t.Fatalf("handed out beside %s: %+v", c.running, e)
			}
			if err := w.queue.Result(t.Context(), node, running.ID,
				agentwire.ResultRequest{Attempt: 1, Status: agentwire.ResultFailed}); err != nil {
				t.Fatal(err)
			}
			w.fetch(t, asked)
		})
	}
}

// A task that waits for its turn must not hold up those that need not wait.
func TestATaskThatMustWaitIsOvertaken(t *testing.T) {
	w := newWorld(t)
	node := w.node(t)
	w.fetch(t, w.ask(t, node, agentwire.TypeDrain))
	w.ask(t, node, agentwire.TypeGPUScrub)
	w.fetch(t, w.ask(t, node, agentwire.TypeHeartbeatCheck))
}

func TestATaskThatCannotBeSignedGoesBackUncounted(t *testing.T) {
	w := newWorld(t)
	task := w.ask(t, w.node(t), agentwire.TypeHeartbeatCheck) // one attempt only
	w.signer.fail(errAway)
	for range 3 {
		e, err := w.queue.Wait(t.Context(), task.Node, 1, 0)
		if e != nil || fault.KindOf(err) != fault.Unavailable || fault.CodeOf(err) != "node_task_unsigned" {
			t.Fatalf("got %+v, %v", e, err)
		}
	}
	if now := w.now(t, task); now.Status != agenttask.Queued || now.Attempt != 0 {
		t.Fatalf("the task is %+v", now)
	}
	w.signer.fail(nil)
	w.fetch(t, task)
}

func TestATaskWhoseAgentWentAwayGoesBackUncounted(t *testing.T) {
	w := newWorld(t)
	task := w.ask(t, w.node(t), agentwire.TypeHeartbeatCheck)
	ctx, gone := context.WithCancel(t.Context())
	w.signer.during = gone
	if e, err := w.queue.Wait(ctx, task.Node, 1, time.Minute); e != nil || err != nil {
		t.Fatalf("got %+v, %v", e, err)
	}
	if now := w.now(t, task); now.Status != agenttask.Queued || now.Attempt != 0 {
		t.Fatalf("the task is %+v", now)
	}
	w.signer.during = nil
	w.fetch(t, task)
}

func TestAKeyStandsForOneTask(t *testing.T) {
	w := newWorld(t)
	node := w.node(t)
	r := agenttask.Request{
		Node: node, Type: agentwire.TypeDrain,
		Params: agentwire.DrainParams{Reason: "a", RevokeUsers: true}, IdempotencyKey: "k",
	}
	first, err := w.enqueue(w.ctx, r)
	if err != nil {
		t.Fatal(err)
	}
	r.Params = map[string]any{"revoke_users": true, "reason": "a"} // the same, spelled otherwise
	again, err := w.enqueue(w.ctx, r)
	if err != nil || again.ID != first.ID {
		t.Errorf("the same request is task %s, %v", again.ID, err)
	}
	if n := w.count(t, `SELECT count(*) FROM outbox_events WHERE event_type = 'node_task.queued'`); n != 1 {
		t.Errorf("announced %d times", n)
	}
	r.Params = agentwire.DrainParams{Reason: "b"}
	_, err = w.enqueue(w.ctx, r)
	wantCode(t, "other parameters", err, "node_task_key_reused")
	r.Type, r.Params = agentwire.TypeHeartbeatCheck, nil
	_, err = w.enqueue(w.ctx, r)
	wantCode(t, "other type", err, "node_task_key_reused")
	r.Node = w.node(t)
	if other, err := w.enqueue(w.ctx, r); err != nil || other.ID == first.ID {
		t.Errorf("the key of another node: %s, %v", other.ID, err)
	}
}

func TestWhatCannotBeAskedIsRefused(t *testing.T) {
	w := newWorld(t)
	states := map[string]id.Node{}
	for _, s := range []string{"active", "retired", "removing", "deleted"} {
		states[s] = w.node(t)
		w.exec(t, `UPDATE nodes SET status = $2 WHERE id = $1`, states[s], s)
	}
	for name, c := range map[string]struct {
		r    agenttask.Request
		code string
	}{
		"unknown type": {
			agenttask.Request{Node: states["active"], Type: "node.explode"},
			"node_task_type_unknown",
		},
		"unknown parameter": {agenttask.Request{
			Node: states["active"], Type: agentwire.TypeDrain,
			Params: map[string]any{"x": 1},
		}, "node_task_params_invalid"},
		"value out of range": {agenttask.Request{
			Node: states["active"], Type: agentwire.TypeStorageCleanup,
			Params: agentwire.StorageCleanupParams{Scope: "/"},
		}, "node_task_params_invalid"},
		"what cannot be stored": {agenttask.Request{
			Node: states["active"], Type: agentwire.TypeDrain,
			Params: agentwire.DrainParams{Reason: "a\x00b"},
		}, "node_task_params_invalid"},
		"unknown node": {
			agenttask.Request{Node: id.New[id.Node](), Type: agentwire.TypeDrain},
			"node_not_found",
		},
		"node out of the fleet": {
			agenttask.Request{Node: states["retired"], Type: agentwire.TypeDrain},
			agentwire.CodeNodeFenced,
		},
		"node that is gone": {
			agenttask.Request{Node: states["deleted"], Type: agentwire.TypeDrain},
			agentwire.CodeNodeFenced,
		},
		"node that is going": {
			agenttask.Request{Node: states["removing"], Type: agentwire.TypeDrain},
			agentwire.CodeNodeFenced,
		},
		"uninstall of one that goes": {agenttask.Request{Node: states["removing"], Type: agentwire.TypeUninstall}, ""},
		"a backslash is not a NUL": {agenttask.Request{
			Node: states["active"], Type: agentwire.TypeDrain,
			Params: agentwire.DrainParams{Reason: `\u0000`},
		}, ""},
		"no parameters": {agenttask.Request{Node: states["active"], Type: agentwire.TypeHeartbeatCheck}, ""},
		"parameters of null are none": {agenttask.Request{
			Node: states["active"], Type: agentwire.TypeHeartbeatCheck,
			Params: []string(nil),
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := w.enqueue(w.ctx, c.r)
			wantCode(t, name, err, c.code)
		})
	}
}

// A node that is being removed is still answered, but only told to uninstall.
func TestANodeThatGoesIsOnlyToldToGo(t *testing.T) {
	w := newWorld(t)
	node := w.node(t)
	w.ask(t, node, agentwire.TypeHeartbeatCheck)
	w.exec(t, `UPDATE nodes SET status = 'removing' WHERE id = $1`, node)
	if e := w.poll(t, node); e != nil {
		t.Fatalf("it was given %+v", e)
	}
	w.fetch(t, w.ask(t, node, agentwire.TypeUninstall))
}

func TestTheFleetIsAskedAtOnce(t *testing.T) {
	w := newWorld(t)
	nodes := map[node.Status]id.Node{}
	attended := 0
	for _, s := range node.Lifecycle.States {
		nodes[s.Name] = w.node(t)
		w.exec(t, `UPDATE nodes SET status = $2 WHERE id = $1`, nodes[s.Name], s.Name)
		if s.Name.Is(node.Attended) {
			attended++
		}
	}
	set := agentwire.UpdateVerifiersParams{Set: w.signer.trusted}
	ask := func() (n int, err error) {
		err = w.db.InTx(w.ctx, func(ctx context.Context, tx pgx.Tx) error {
			n, err = w.commands.EnqueueForFleet(ctx, tx, agenttask.Request{
				Type: agentwire.TypeUpdateVerifiers, Params: set, IdempotencyKey: "verifiers-1", Owner: row{},
			})
			return err
		})
		return n, err
	}
	if n, err := ask(); err != nil || n != attended {
		t.Fatalf("%d nodes, want the %d that are attended: %v", n, attended, err)
	}
	if n, err := ask(); err != nil || n != 0 {
		t.Errorf("asked again: %d nodes, %v", n, err)
	}
	if e := w.poll(t, nodes[node.Offline]); e == nil || e.Type != agentwire.TypeUpdateVerifiers {
		t.Errorf("got %+v", e)
	}
	if e := w.poll(t, nodes[node.Retired]); e != nil {
		t.Errorf("got %+v", e)
	}
}
