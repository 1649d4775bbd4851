package durable_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/durable"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/stack/stacktest"
	"gpuaas/testkit"
)

// queuesBecome asks for the queues until they are as wanted.
func queuesBecome(t *testing.T, c *durable.Client, wanted func(workflows, activities durable.Queue) bool) {
	t.Helper()
	testkit.Succeeds(t, "the queues", testkit.Patience, func() error {
		queues, err := c.Queues(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(queues) != 2 || queues[0].Name != durable.TaskQueue || queues[0].Work != durable.WorkWorkflow ||
			queues[1].Work != durable.WorkActivity {
			t.Fatalf("the queues are %+v", queues)
		}
		if !wanted(queues[0], queues[1]) {
			return fmt.Errorf("they are %+v", queues)
		}
		return nil
	})
}

// A task without a worker is seen to wait, and is gone when a worker has come.
func TestQueuesShowWhatWaitsAndWhoServes(t *testing.T) {
	access := stacktest.Temporal(t)
	c, err := durable.Open(durable.Config(access), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for range 3 {
		m := start(t, "wait", durable.TaskQueue, "wf-"+id.NewString(), nil)
		if errs := (durable.Intents{Client: c}).Deliver(t.Context(), []outbox.Message{m}); errs[0] != nil {
			t.Fatal(errs[0])
		}
	}
	queuesBecome(t, c, func(workflows, activities durable.Queue) bool {
		return workflows.Backlog == 3 && workflows.Oldest > 0 && activities.Backlog == 0
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- c.RunWorker(ctx, time.Second, func(r worker.Registry) {
			r.RegisterWorkflowWithOptions(func(workflow.Context) error { return nil }, workflow.RegisterOptions{Name: "wait"})
			r.RegisterActivity((&probe{}).Observe)
		})
	}()
	queuesBecome(t, c, func(workflows, activities durable.Queue) bool {
		return workflows.Backlog == 0 && workflows.Oldest == 0 && workflows.Pollers > 0 && activities.Pollers > 0
	})
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestQueuesOfATemporalThatIsNotThere(t *testing.T) {
	c, err := durable.Open(durable.Config{Address: "127.0.0.1:1", Namespace: "none"}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if queues, err := c.Queues(ctx); fault.CodeOf(err) != "temporal_unavailable" || queues != nil {
		t.Errorf("%v %v", queues, err)
	}
}
