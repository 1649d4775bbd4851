package agenttask_test

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/agenttask"
	"gpuaas/controlplane/internal/durable"
	"gpuaas/controlplane/internal/durable/durabletest"
	"gpuaas/controlplane/internal/fault"
	"gpuaas/controlplane/internal/id"
	"gpuaas/controlplane/internal/outbox"
	"gpuaas/stack/stacktest"
)

// drain is a workflow of some other slice.
func drain(ctx workflow.Context, node id.Node) (agenttask.Result, error) {
	return agenttask.Run(ctx, agenttask.Request{Node: node, Type: agentwire.TypeDrain, Params: agentwire.DrainParams{Reason: "test"}, Reason: "drain"})
}

// stage is a workflow in Temporal's test environment, with what it did noted.
type stage struct {
	*world
	env        *testsuite.TestWorkflowEnvironment
	node       id.Node
	mu         sync.Mutex
	activities []string
	timers     int
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{world: newWorld(t)}
	s.node = s.world.node(t)
	s.env = durabletest.New(t, agenttask.Register(&agenttask.Activities{Commands: s.commands}))
	s.env.SetStartTime(s.clock.now())
	s.env.SetOnActivityStartedListener(func(info *activity.Info, _ context.Context, _ converter.EncodedValues) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.activities = append(s.activities, info.ActivityType.Name)
	})
	s.env.SetOnTimerFiredListener(func(string) { s.timers++ })
	return s
}

// task is the one that the workflow asked for.
func (s *stage) task(t *testing.T) agenttask.Task {
	t.Helper()
	var task id.NodeTask
	if err := s.db.QueryRow(t.Context(), `SELECT id FROM node_tasks`).Scan(&task); err != nil {
		t.Fatal(err)
	}
	return s.now(t, agenttask.Task{ID: task})
}

func (s *stage) carryOut(t *testing.T) agenttask.Task {
	t.Helper()
	task := s.task(t)
	s.fetch(t, task)
	if err := s.queue.Result(t.Context(), s.node, task.ID, succeeded(t, 1, agentwire.DrainOutput{Draining: true})); err != nil {
		t.Fatal(err)
	}
	return task
}

func (s *stage) end(t *testing.T) agenttask.Result {
	t.Helper()
	if err := s.env.GetWorkflowError(); !s.env.IsWorkflowCompleted() || err != nil {
		t.Fatalf("the workflow: %v", err)
	}
	var r agenttask.Result
	if err := s.env.GetWorkflowResult(&r); err != nil {
		t.Fatal(err)
	}
	return r
}

func (s *stage) did(t *testing.T, timers int, want ...string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.activities, want) || s.timers != timers {
		t.Errorf("activities %v and %d timers, want %v and %d", s.activities, s.timers, want, timers)
	}
}

func TestTheResultItselfCompletesTheWait(t *testing.T) {
	s := newStage(t)
	s.env.RegisterDelayedCallback(func() {
		task := s.carryOut(t)
		n := s.count(t, `SELECT count(*) FROM outbox_events WHERE event_type = 'workflow.signal' AND aggregate_id = 'default-test-workflow-id' AND envelope->>'name' = $1`,
			agenttask.SignalName(task.ID))
		if n != 1 {
			t.Errorf("%d signals were recorded", n)
		}
		s.env.SignalWorkflow(agenttask.SignalName(task.ID), nil)
	}, 10*time.Second)
	started := s.env.Now()
	s.env.ExecuteWorkflow(drain, s.node)
	r := s.end(t)
	var out agentwire.DrainOutput
	if err := r.Decode(&out); err != nil || r.Status != agenttask.Succeeded || !out.Draining || r.Err() != nil {
		t.Errorf("%+v %v", r, err)
	}
	if took := s.env.Now().Sub(started); took > 11*time.Second {
		t.Errorf("it took %s", took)
	}
	s.did(t, 0, "EnqueueNodeTask", "ReadNodeTask")
	if task := s.task(t); task.RequestedBy != "system:workflow:default-test-workflow-id" || task.IdempotencyKey == "" {
		t.Errorf("%+v", task)
	}
}

func TestALostSignalIsSurvived(t *testing.T) {
	s := newStage(t)
	s.env.RegisterDelayedCallback(func() { s.carryOut(t) }, 10*time.Second)
	s.env.ExecuteWorkflow(drain, s.node)
	if r := s.end(t); r.Status != agenttask.Succeeded {
		t.Errorf("%+v", r)
	}
	s.did(t, 1, "EnqueueNodeTask", "ReadNodeTask")
}

// At the deadline a task may still be in the hands of a live agent: the
// workflow goes on waiting.
func TestAWorkflowOutwaitsALiveTask(t *testing.T) {
	s := newStage(t)
	s.env.RegisterDelayedCallback(func() { s.fetch(t, s.task(t)) }, 10*time.Second)
	s.env.RegisterDelayedCallback(func() {
		task := s.task(t)
		if err := s.queue.Result(t.Context(), s.node, task.ID, agentwire.ResultRequest{Attempt: 1, Status: agentwire.ResultCancelled}); err != nil {
			t.Error(err)
		}
	}, 75*time.Minute+150*time.Second)
	s.env.ExecuteWorkflow(drain, s.node)
	r := s.end(t)
	if r.Status != agenttask.Expired || r.Error.Code != agenttask.CodeOverran || fault.KindOf(r.Err()) != fault.Ambiguous {
		t.Errorf("%+v", r)
	}
	s.did(t, 3, "EnqueueNodeTask", "ReadNodeTask", "ReadNodeTask", "ReadNodeTask")
}

func TestACancelledWorkflowCancelsItsTask(t *testing.T) {
	s := newStage(t)
	s.env.RegisterDelayedCallback(s.env.CancelWorkflow, 10*time.Second)
	s.env.ExecuteWorkflow(drain, s.node)
	if err := s.env.GetWorkflowError(); err == nil {
		t.Error("the workflow was not cancelled")
	}
	if task := s.task(t); task.Status != agenttask.Cancelled {
		t.Errorf("%+v", task)
	}
}

func TestATaskThatCannotBeAskedIsAnError(t *testing.T) {
	s := newStage(t)
	s.exec(t, `UPDATE nodes SET status = 'retired' WHERE id = $1`, s.node)
	s.env.ExecuteWorkflow(func(ctx workflow.Context) (string, error) {
		_, err := agenttask.Run(ctx, agenttask.Request{Node: s.node, Type: agentwire.TypeDrain})
		return fault.CodeOf(err), nil
	})
	var code string
	if err := s.env.GetWorkflowResult(&code); err != nil || code != agentwire.CodeNodeFenced {
		t.Errorf("%s %v", code, err)
	}
}

// The task of an earlier request may have ended before anybody could wait.
func TestATaskThatHasEndedIsNotWaitedFor(t *testing.T) {
	s := newStage(t)
	r := agenttask.Request{Node: s.node, Type: agentwire.TypeDrain, IdempotencyKey: "once"}
	if _, err := s.enqueue(s.ctx, r); err != nil {
		t.Fatal(err)
	}
	s.carryOut(t)
	s.env.ExecuteWorkflow(func(ctx workflow.Context) (agenttask.Result, error) { return agenttask.Run(ctx, r) })
	if got := s.end(t); got.Status != agenttask.Succeeded {
		t.Errorf("%+v", got)
	}
	s.did(t, 0, "EnqueueNodeTask", "ReadNodeTask")
}

func TestATaskThatNobodyAwaitsCanBeAwaited(t *testing.T) {
	s := newStage(t)
	r := agenttask.Request{Node: s.node, Type: agentwire.TypeDrain, IdempotencyKey: "once"}
	if _, err := s.enqueue(s.ctx, r); err != nil {
		t.Fatal(err)
	}
	s.env.RegisterDelayedCallback(func() { s.env.SignalWorkflow(agenttask.SignalName(s.carryOut(t).ID), nil) }, time.Second)
	s.env.ExecuteWorkflow(func(ctx workflow.Context) (agenttask.Result, error) { return agenttask.Run(ctx, r) })
	s.end(t)
	if task := s.task(t); task.AwaitWorkflow != "default-test-workflow-id" {
		t.Errorf("workflow %s is told", task.AwaitWorkflow)
	}
}

// Whoever waits already must not wait for ever because another asks the same.
func TestATaskThatIsAwaitedIsNotTakenOver(t *testing.T) {
	s := newStage(t)
	r := agenttask.Request{Node: s.node, Type: agentwire.TypeDrain, IdempotencyKey: "once", AwaitWorkflow: "an-earlier-one"}
	if _, err := s.enqueue(s.ctx, r); err != nil {
		t.Fatal(err)
	}
	other := r
	other.AwaitWorkflow = "a-later-one"
	if _, err := s.enqueue(s.ctx, other); fault.CodeOf(err) != "node_task_awaited" || fault.KindOf(err) != fault.Conflict {
		t.Fatalf("another asks the same: %v", err)
	}
	s.env.ExecuteWorkflow(func(ctx workflow.Context) (string, error) {
		_, err := agenttask.Run(ctx, r)
		return fault.CodeOf(err), nil
	})
	var code string
	if err := s.env.GetWorkflowResult(&code); err != nil || code != "node_task_awaited" {
		t.Errorf("%s %v", code, err)
	}
	if task := s.task(t); task.AwaitWorkflow != "an-earlier-one" || task.Status != agenttask.Queued {
		t.Errorf("%+v", task)
	}
	if _, err := s.enqueue(s.ctx, r); err != nil {
		t.Errorf("the earlier one asks again: %v", err)
	}
	s.carryOut(t)
	if task, err := s.enqueue(s.ctx, other); err != nil || task.Status != agenttask.Succeeded {
		t.Errorf("after its end: %+v, %v", task, err)
	}
}

// The same on real engines: enqueued by a workflow, fetched by a poll, ended by
// a result, carried back to Temporal by the relay.
func TestATaskOfARealWorkflow(t *testing.T) {
	w := newWorld(t)
	address, namespace := stacktest.Temporal(t)
	quiet := slog.New(slog.DiscardHandler)
	c, err := durable.Open(durable.Config{Address: address, Namespace: namespace}, quiet)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	raw, err := client.Dial(client.Options{HostPort: address, Namespace: namespace})
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	defer group.Wait()
	defer stop()
	kind := "drain-" + id.NewString() // the queue is shared with other tests
	group.Go(func() {
		_ = c.RunWorker(ctx, time.Second, agenttask.Register(&agenttask.Activities{Commands: w.commands}), func(r worker.Registry) {
			r.RegisterWorkflowWithOptions(drain, workflow.RegisterOptions{Name: kind})
		})
	})
	group.Go(func() {
		outbox.NewRelay(outbox.RelayConfig{DB: w.db, Logger: quiet, Destinations: map[string]outbox.Deliverer{outbox.DestinationTemporal: durable.Intents{Client: c}}}).Run(ctx)
	})
	q, node := w.run(t), w.node(t)
	for range 3 {
		p := poller(t.Context(), q, node, time.Minute)
		workflowID := "wf-" + id.NewString()
		err = w.db.InTx(w.ctx, func(ctx context.Context, tx pgx.Tx) error {
			return outbox.StartWorkflow(ctx, tx, outbox.WorkflowStart{Type: kind, ID: workflowID, Queue: durable.TaskQueue, Input: node})
		})
		if err != nil {
			t.Fatal(err)
		}
		g := await(t, p, "the task")
		if g.err != nil || g.envelope == nil || g.envelope.CorrelationID != "corr-1" {
			t.Fatalf("%+v", g)
		}
		task, err := id.Parse[id.NodeTask](g.envelope.TaskID)
		if err != nil {
			t.Fatal(err)
		}
		reported := time.Now()
		if err := w.queue.Result(t.Context(), node, task, succeeded(t, 1, agentwire.DrainOutput{})); err != nil {
			t.Fatal(err)
		}
		var r agenttask.Result
		if err := raw.GetWorkflow(t.Context(), workflowID, "").Get(t.Context(), &r); err != nil || r.Status != agenttask.Succeeded {
			t.Fatalf("%+v %v", r, err)
		}
		t.Logf("from the result to the end of the workflow: %s", time.Since(reported))
	}
}
