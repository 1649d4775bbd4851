package durable_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/durable"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/engine/telemetry"
	"gpuaas/stack/stacktest"
)

type probe struct {
	runs        atomic.Int32
	correlation atomic.Value
	actor       atomic.Value
}

func (p *probe) Observe(ctx context.Context) error {
	p.runs.Add(1)
	p.correlation.Store(telemetry.Correlation(ctx))
	p.actor.Store(auth.From(ctx).ID)
	return nil
}

func observe(ctx workflow.Context, text string) (string, error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: 10 * time.Second})
	return text, workflow.ExecuteActivity(ctx, "observe").Get(ctx, nil)
}

func start(t *testing.T, workflowType, queue, workflowID string, input any) outbox.Message {
	t.Helper()
	body, err := json.Marshal(outbox.WorkflowStart{Type: workflowType, ID: workflowID, Queue: queue, Input: input})
	if err != nil {
		t.Fatal(err)
	}
	return outbox.Message{ID: id.New[id.Event](), CorrelationID: "corr-7", Body: body}
}

func cancellation(t *testing.T, workflowID string) outbox.Message {
	t.Helper()
	body, err := json.Marshal(outbox.WorkflowCancel{ID: workflowID})
	if err != nil {
		t.Fatal(err)
	}
	return outbox.Message{ID: id.New[id.Event](), Type: outbox.WorkflowCancelType, Body: body}
}

func waitForCancel(ctx workflow.Context) error {
	ctx.Done().Receive(ctx, nil)
	return nil
}

func TestARecordedCancellationReachesTheWorkflow(t *testing.T) {
	access := stacktest.Temporal(t)
	c, err := durable.Open(durable.Config(access), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	raw, err := client.Dial(access.Options(t))
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	queue, workflowID := "queue-"+id.NewString(), "wf-"+id.NewString()
	w := worker.New(raw, queue, worker.Options{})
	w.RegisterWorkflowWithOptions(waitForCancel, workflow.RegisterOptions{Name: "wait"})
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	for _, m := range []outbox.Message{
		start(t, "wait", queue, workflowID, nil), cancellation(t, workflowID),
		cancellation(t, workflowID),
	} {
		if errs := (durable.Intents{Client: c}).Deliver(t.Context(), []outbox.Message{m}); errs[0] != nil {
			t.Fatal(errs[0])
		}
	}
	if err := raw.GetWorkflow(t.Context(), workflowID, "").Get(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
}

func signal(t *testing.T, workflowID string, payload any) outbox.Message {
	t.Helper()
	body, err := json.Marshal(outbox.WorkflowSignal{WorkflowID: workflowID, Name: "word", Payload: payload})
	if err != nil {
		t.Fatal(err)
	}
	return outbox.Message{ID: id.New[id.Event](), Type: outbox.WorkflowSignalType, AggregateID: workflowID, Body: body}
}

func waitForWord(ctx workflow.Context) (map[string]string, error) {
	var word map[string]string
	workflow.GetSignalChannel(ctx, "word").Receive(ctx, &word)
	return word, nil
}

func TestARecordedSignalReachesTheWorkflow(t *testing.T) {
	access := stacktest.Temporal(t)
	c, err := durable.Open(durable.Config(access), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	raw, err := client.Dial(access.Options(t))
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	queue, workflowID := "queue-"+id.NewString(), "wf-"+id.NewString()
	w := worker.New(raw, queue, worker.Options{})
	w.RegisterWorkflowWithOptions(waitForWord, workflow.RegisterOptions{Name: "wait-for-word"})
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	deliver := func(m outbox.Message) error {
		return (durable.Intents{Client: c}).Deliver(t.Context(), []outbox.Message{m})[0]
	}
	if err := errors.Join(deliver(start(t, "wait-for-word", queue, workflowID, nil)),
		deliver(signal(t, workflowID, map[string]string{"status": "done"}))); err != nil {
		t.Fatal(err)
	}
	var word map[string]string
	if err := raw.GetWorkflow(t.Context(), workflowID, "").Get(t.Context(), &word); err != nil ||
		word["status"] != "done" {
		t.Fatalf("%v %v", word, err)
	}
	for what, m := range map[string]outbox.Message{
		"a workflow that has ended":       signal(t, workflowID, nil),
		"a workflow that was never there": signal(t, "no-such-workflow", nil),
	} {
		if err := deliver(m); err != nil {
			t.Errorf("a signal for %s: %v", what, err)
		}
	}
	if err := deliver(outbox.Message{Type: outbox.WorkflowSignalType, Body: []byte("{")}); fault.CodeOf(
		err) != "workflow_signal_malformed" {
		t.Errorf("a signal that cannot be read: %v", err)
	}
}

func TestARecordedStartRunsOnceWithItsCorrelation(t *testing.T) {
	access := stacktest.Temporal(t)
	logger := slog.New(slog.DiscardHandler)
	c, err := durable.Open(durable.Config(access), logger)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	p, kind := &probe{}, "observe-"+id.NewString() // the queue is shared with other tests
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- c.RunWorker(ctx, time.Second, func(w worker.Registry) {
			w.RegisterWorkflowWithOptions(observe, workflow.RegisterOptions{Name: kind})
			w.RegisterActivityWithOptions(p.Observe, activity.RegisterOptions{Name: "observe"})
		})
	}()
	m := start(t, kind, durable.TaskQueue, "wf-"+id.NewString(), "hello")
	for range 3 { // the relay delivers at least once
		if errs := (durable.Intents{Client: c}).Deliver(t.Context(), []outbox.Message{m}); errs[0] != nil {
			t.Fatal(errs[0])
		}
	}
	raw, err := client.Dial(access.Options(t))
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	decoded, err := m.WorkflowStart()
	if err != nil {
		t.Fatal(err)
	}
	var got string
	if err := raw.GetWorkflow(t.Context(), decoded.ID, "").Get(t.Context(), &got); err != nil || got != "hello" {
		t.Fatalf("%q %v", got, err)
	}
	if errs := (durable.Intents{Client: c}).Deliver(t.Context(), []outbox.Message{m}); errs[0] != nil {
		t.Errorf("start of a workflow that has ended: %v", errs[0])
	}
	if p.runs.Load() != 1 || p.correlation.Load() != "corr-7" || p.actor.Load() != "system:workflow:"+decoded.ID {
		t.Errorf("runs %d, correlation %v, actor %v", p.runs.Load(), p.correlation.Load(), p.actor.Load())
	}
	if errs := (durable.Intents{Client: c}).Deliver(t.Context(),
		[]outbox.Message{cancellation(t, "no-such-workflow")}); errs[0] != nil {
		t.Errorf("cancel of what is not there: %v", errs[0])
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestTemporalThatIsNotThereIsUnavailable(t *testing.T) {
	c, err := durable.Open(durable.Config{Address: "127.0.0.1:1", Namespace: "x"}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	for what, err := range map[string]error{
		"check": c.Check(ctx), "cancel": (durable.Intents{Client: c}).Deliver(ctx, []outbox.Message{cancellation(t, "x")})[0],
		"start":  (durable.Intents{Client: c}).Deliver(ctx, []outbox.Message{start(t, "k", "q", "i", nil)})[0],
		"signal": (durable.Intents{Client: c}).Deliver(ctx, []outbox.Message{signal(t, "x", nil)})[0],
	} {
		if fault.CodeOf(err) != "temporal_unavailable" {
			t.Errorf("%s: %v", what, err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := c.RunWorker(ctx, time.Second); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("a worker that is told to stop while it waits: %v", err)
	}
}

func TestAMissingNamespaceSaysHowToMakeIt(t *testing.T) {
	access := stacktest.Temporal(t)
	access.Namespace = "missing"
	c, err := durable.Open(durable.Config(access), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	f, ok := fault.As(c.Check(t.Context()))
	if !ok || f.Code != "temporal_namespace_missing" || f.Remedy == "" {
		t.Errorf("%+v", f)
	}
}
