package allocation_test

import (
	"context"
	"flag"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"gpuaas/controlplane/internal/engine/durable"
	"gpuaas/controlplane/internal/engine/durable/durabletest"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/fleet/agenttask"
	"gpuaas/controlplane/internal/rent/allocation"
	"gpuaas/stack/stacktest"
	"gpuaas/testkit"
)

var writeHistories = flag.Bool("update-histories", false, "record the histories that must still replay")

// Histories of workflows that are under way must replay with every release: change no
// workflow in a way in which these would not.
func TestHistoriesReplay(t *testing.T) {
	if *writeHistories {
		recordHistories(t)
	}
	for _, name := range []string{
		"handed_over", "waited_for", "placed_again", "released", "keys_reviewed", "keys_changed",
	} {
		durabletest.Replay(t, historyFile(name), func(r worker.WorkflowReplayer) {
			r.RegisterWorkflowWithOptions(allocation.Provision, workflow.RegisterOptions{Name: "ProvisionAllocation"})
			r.RegisterWorkflowWithOptions(allocation.Leave, workflow.RegisterOptions{Name: "ReleaseAllocation"})
			r.RegisterWorkflowWithOptions(allocation.ReviewKeys, workflow.RegisterOptions{Name: "ReviewAllocationKeys"})
			r.RegisterWorkflowWithOptions(allocation.ChangeKeys, workflow.RegisterOptions{Name: "ChangeAllocationKeys"})
		})
	}
}

func historyFile(name string) string { return filepath.Join("testdata", "history_"+name+".json") }

func recordHistories(t *testing.T) {
	t.Helper()
	c := newCrew(t)
	temporal := c.serve(t)
	keep := func(name, workflowID string) {
		testkit.Eventually(t, "the workflow has begun", func() bool {
			_, err := temporal.DescribeWorkflowExecution(t.Context(), workflowID, "")
			return err == nil
		})
		durabletest.KeepHistory(t, temporal, workflowID, historyFile(name))
	}
	first := c.node(t, "n1")
	a := c.create(t, allocation.Ask{})[0]
	c.becomes(t, a, allocation.Active)
	keep("handed_over", a.WorkflowID())

	if err := c.keys.RemoveOwn(c.ctx, c.ofAnn); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the node opens to the other keys only", func() bool {
		now := c.get(t, a.ID)
		return now.Keyring.Revision == 1 && now.Keyring.ChangingSince == nil
	})
	keep("keys_reviewed", c.started(t, "ReviewAllocationKeys"))
	keep("keys_changed", c.started(t, "ChangeAllocationKeys"))

	a = c.release(t, a)
	keep("released", c.started(t, "ReleaseAllocation"))
	c.cleanups.cleaned(t, first)

	c.agents.set(func() { c.agents.silent = true })
	slow := c.create(t, allocation.Ask{})[0]
	var asked agenttask.Task
	testkit.Eventually(t, "the node has a task", func() bool {
		c.agents.set(func() {
			for _, task := range c.agents.tasks {
				if task.Status == agenttask.Queued {
					asked = task
				}
			}
		})
		return !asked.ID.IsZero()
	})
	c.agents.set(func() { c.agents.silent = false })
	ended := agenttask.SignalName(asked.ID)
	if err := temporal.SignalWorkflow(t.Context(), slow.WorkflowID(), "", ended, nil); err != nil {
		t.Fatal(err)
	}
	c.becomes(t, slow, allocation.Active)
	keep("waited_for", slow.WorkflowID())

	second := c.node(t, "n2")
	c.node(t, "n3")
	c.agents.set(func() { c.agents.unhealthy[second] = "GPU 3 fell off the bus" })
	moved := c.create(t, allocation.Ask{})[0]
	c.becomes(t, moved, allocation.Active)
	keep("placed_again", moved.WorkflowID())
}

// serve runs a worker and a relay on a real Temporal.
func (c *crew) serve(t *testing.T) client.Client {
	t.Helper()
	access, quiet := stacktest.Temporal(t), slog.New(slog.DiscardHandler)
	engine, err := durable.Open(durable.Config(access), quiet)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := client.Dial(access.Options(t))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() { _ = engine.RunWorker(ctx, time.Second, c.service.RegisterWorker) })
	group.Go(func() {
		outbox.NewRelay(outbox.RelayConfig{
			DB: c.db, Logger: quiet,
			Destinations: map[string]outbox.Deliverer{outbox.DestinationTemporal: durable.Intents{Client: engine}},
		}).Run(ctx)
	})
	t.Cleanup(func() {
		stop()
		group.Wait()
		raw.Close()
		engine.Close()
	})
	return raw
}

func (c *crew) becomes(t *testing.T, a allocation.Allocation, want allocation.Status) {
	t.Helper()
	testkit.Eventually(t, string(want), func() bool { return c.get(t, a.ID).Status == want })
}

// started is the id of the newest workflow of a type.
func (c *crew) started(t *testing.T, typ string) (workflowID string) {
	t.Helper()
	if err := c.owner.QueryRow(t.Context(), `SELECT envelope ->> 'id' FROM outbox_events
		WHERE destination = 'temporal' AND event_type = $1 ORDER BY seq DESC LIMIT 1`, typ).Scan(&workflowID); err != nil {
		t.Fatal(err)
	}
	return workflowID
}

// set changes the agents while they may be at work.
func (a *agents) set(change func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change()
}
