package durable_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/durable"
	"gpuaas/controlplane/internal/engine/durable/durabletest"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/stack/stacktest"
	"gpuaas/testkit"
)

// ledger is the row of a job, and a script of what its stages answer.
type ledger struct {
	mu    sync.Mutex
	said  []string
	next  []durable.Turn
	stage func(ctx context.Context, call durable.StageCall) (durable.Turn, error)
}

func (l *ledger) say(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.said = append(l.said, fmt.Sprintf(format, args...))
}

func (l *ledger) Next(_ context.Context, job string) (durable.Turn, error) {
	l.say("next %s", job)
	l.mu.Lock()
	defer l.mu.Unlock()
	turn := l.next[0]
	if len(l.next) > 1 {
		l.next = l.next[1:]
	}
	return turn, nil
}

func (l *ledger) Stage(ctx context.Context, call durable.StageCall) (durable.Turn, error) {
	l.say("%s %d@%d", call.Stage, call.Attempt, call.Epoch)
	return l.stage(ctx, call)
}

func (l *ledger) Lost(_ context.Context, call durable.StageCall, loss durable.StageLoss) (durable.Turn, error) {
	l.say("lost %s: %s", call.Stage, loss.Code)
	return durable.Turn{Do: durable.TurnEnd}, nil
}

func runJob(ctx workflow.Context, job string) error {
	return durable.RunJob(ctx, durable.Job{
		ID: job, Next: "Next", Lost: "Lost",
		Stage: func(s string) string { return "stage." + s },
	})
}

func (l *ledger) env(t *testing.T) *testsuite.TestWorkflowEnvironment {
	t.Helper()
	return durabletest.New(t, l.register)
}

func (l *ledger) register(r worker.Registry) {
	r.RegisterWorkflowWithOptions(runJob, workflow.RegisterOptions{Name: "job"})
	r.RegisterActivityWithOptions(l.Next, activity.RegisterOptions{Name: "Next"})
	r.RegisterActivityWithOptions(l.Lost, activity.RegisterOptions{Name: "Lost"})
	for _, s := range []string{"a", "b"} {
		r.RegisterActivityWithOptions(l.Stage, activity.RegisterOptions{Name: "stage." + s})
	}
}

func (l *ledger) ends(t *testing.T, env *testsuite.TestWorkflowEnvironment, want ...string) {
	t.Helper()
	env.ExecuteWorkflow(runJob, "j")
	if err := env.GetWorkflowError(); !env.IsWorkflowCompleted() || err != nil {
		t.Fatalf("completed %v: %v; %q", env.IsWorkflowCompleted(), err, l.said)
	}
	if !slices.Equal(l.said, want) {
		t.Errorf("said %q, want %q", l.said, want)
	}
}

var (
	runA = durable.Turn{Do: durable.TurnRun, Stage: "a", Attempt: 1, Epoch: 1}
	end  = durable.Turn{Do: durable.TurnEnd}
)

func TestAJobDoesWhatItsTurnsSay(t *testing.T) {
	l := &ledger{next: []durable.Turn{runA}}
	l.stage = func(_ context.Context, call durable.StageCall) (durable.Turn, error) {
		switch {
		case call.Stage == "a" && call.Attempt == 1:
			return durable.Turn{Do: durable.TurnLater, Stage: "a", Attempt: 2, Epoch: 1, Wait: time.Hour}, nil
		case call.Stage == "a":
			return durable.Turn{Do: durable.TurnRun, Stage: "b", Attempt: 1, Epoch: 1}, nil
		}
		return end, nil
	}
	l.ends(t, l.env(t), "next j", "a 1@1", "a 2@1", "b 1@1")
}

func TestAParkedJobWaitsForAnOperator(t *testing.T) {
	l := &ledger{next: []durable.Turn{{Do: durable.TurnPark}, runA}}
	l.stage = func(context.Context, durable.StageCall) (durable.Turn, error) { return end, nil }
	env := l.env(t)
	env.RegisterDelayedCallback(func() {
		l.say("operator")
		env.SignalWorkflow(durable.ActSignal, nil)
	}, 30*24*time.Hour)
	l.ends(t, env, "next j", "operator", "next j", "a 1@1")
}

func TestAnAwaitedSignalEndsTheWait(t *testing.T) {
	for name, test := range map[string]struct {
		signal string
		after  time.Duration
		want   []string
	}{
		"the signal":  {"enrolled", time.Minute, []string{"next j", "a 1@1", "signal", "a 2@1"}},
		"an operator": {durable.ActSignal, time.Minute, []string{"next j", "a 1@1", "signal", "next j"}},
		"time":        {"nobody listens", 100 * time.Hour, []string{"next j", "a 1@1", "a 2@1"}},
	} {
		t.Run(name, func(t *testing.T) {
			l := &ledger{next: []durable.Turn{runA, end}}
			l.stage = func(_ context.Context, call durable.StageCall) (durable.Turn, error) {
				if call.Attempt == 2 {
					return end, nil
				}
				return durable.Turn{Do: durable.TurnAwait, Stage: "a", Attempt: 2, Epoch: 1, Signal: "enrolled", Wait: time.Hour},
					nil
			}
			env := l.env(t)
			env.RegisterDelayedCallback(func() {
				if !env.IsWorkflowCompleted() {
					l.say("signal")
					env.SignalWorkflow(test.signal, nil)
				}
			}, test.after)
			l.ends(t, env, test.want...)
		})
	}
}

// The real server, because only that lets a workflow wait for an activity that
// it has told to stop.
func TestAnOperatorStopsAStageBeforeAnythingElseIsDone(t *testing.T) {
	l := &ledger{next: []durable.Turn{runA, end}}
	running := make(chan struct{}, 1)
	l.stage = func(ctx context.Context, _ durable.StageCall) (durable.Turn, error) {
		running <- struct{}{}
		ticker := time.NewTicker(50 * time.Millisecond)
		defer ticker.Stop()
		for ctx.Err() == nil {
			activity.RecordHeartbeat(ctx)
			<-ticker.C
		}
		l.say("stopped")
		return durable.Turn{}, ctx.Err()
	}
	access := stacktest.Temporal(t)
	c, err := durable.Open(durable.Config(access), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.EnsureMarks(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.EnsureMarks(t.Context()); err != nil {
		t.Errorf("a second time: %v", err)
	}
	raw, err := client.Dial(access.Options(t))
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	queue, workflowID := "queue-"+id.NewString(), "job-"+id.NewString()
	w := worker.New(raw, queue, durable.WorkerOptions(slog.New(slog.DiscardHandler), time.Second))
	l.register(w)
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	act := func() {
		body, err := json.Marshal(outbox.WorkflowSignal{
			WorkflowID: workflowID, Name: durable.ActSignal,
			Start: &outbox.WorkflowStart{
				Type: "job", ID: workflowID, Queue: queue, Input: "j",
				Marks: map[string]string{durable.MarkHostname: "c07u31", durable.MarkBatch: ""},
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		if errs := (durable.Intents{Client: c}).Deliver(t.Context(),
			[]outbox.Message{{Type: outbox.WorkflowSignalType, AggregateID: workflowID, Body: body}}); errs[0] != nil {
			t.Fatal(errs[0])
		}
	}
	act() // starts it: none runs
	testkit.Receive(t, "the stage to run", running)
	act()
	if err := raw.GetWorkflow(t.Context(), workflowID, "").Get(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if want := []string{"next j", "a 1@1", "stopped", "next j"}; !slices.Equal(l.said, want) {
		t.Errorf("said %q", l.said)
	}
}

func TestAStageThatCannotBeExecutedIsRecorded(t *testing.T) {
	l := &ledger{next: []durable.Turn{runA}}
	l.stage = func(context.Context, durable.StageCall) (durable.Turn, error) {
		return durable.Turn{}, fault.New(fault.Internal, "row_unreadable", "the row cannot be read")
	}
	l.ends(t, l.env(t), "next j", "a 1@1", "lost a: row_unreadable")
}

func TestASupersededStageAsksWhatIsTrueNow(t *testing.T) {
	l := &ledger{next: []durable.Turn{runA, end}}
	l.stage = func(context.Context, durable.StageCall) (durable.Turn, error) {
		return durable.Turn{}, durable.Superseded("onboarding", "j")
	}
	l.ends(t, l.env(t), "next j", "a 1@1", "next j")
}
