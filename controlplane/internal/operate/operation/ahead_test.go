package operation_test

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/operate/definition"
	"gpuaas/controlplane/internal/operate/operation"
	"gpuaas/testkit"
)

// leads has runs driven ahead of their workflows until the test ends, and left to them when
// nothing has happened for so long.
func (w *world) leads(tb testing.TB, linger time.Duration) {
	tb.Helper()
	ahead := outbox.NewAhead(outbox.AheadConfig{DB: w.db, Lease: time.Hour})
	ctx, stop := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() { ahead.Run(ctx) })
	tb.Cleanup(func() { stop(); group.Wait() })
	testkit.Eventually(tb, "it leads", ahead.Running)
	w.service = operation.New(operation.Config{
		DB: w.db, Tasks: w.tasks, Linger: linger, Ahead: ahead,
		CheckInputs: func(definition.Version, json.RawMessage) (json.RawMessage, error) { return json.RawMessage("{}"), nil },
	})
}

// starts counts the workflows that are to start for runs: at once, or when the lease is over.
func (w *world) starts(tb testing.TB, when string) int {
	tb.Helper()
	return w.count(tb, `SELECT count(*) FROM outbox_events WHERE event_type = 'RunOperation' AND status = 'pending'
		AND next_attempt_at `+when+` clock_timestamp()`)
}

// A run whose nodes are quick ends without a workflow.
func TestARunEndsAheadOfItsWorkflow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ref, nodes := w.define(t, "demo.prepare"), w.nodes(t, 3)
	w.leads(t, time.Hour)
	// Until the run has ended, its workflow would start when the lease is over.
	o := w.submit(t, operation.Ask{Ref: ref, Targets: operation.Selector{Nodes: nodes}, Trigger: operation.ByAdmin})
	testkit.Eventually(t, "the run has ended", func() bool { w.work(t); return w.get(t, o.ID).Status.Ended() })
	if now := w.get(t, o.ID); now.Status != operation.Succeeded {
		t.Fatalf("it is %s: %s", now.Status, now.ErrorMessage)
	}
	testkit.Eventually(t, "no workflow is to start", func() bool { return w.starts(t, ">")+w.starts(t, "<=") == 0 })
}

// A run whose nodes take long is left to its workflow, which goes on where it stands.
func TestARunWhoseNodesTakeLongIsLeftToItsWorkflow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ref, nodes := w.define(t, "demo.prepare"), w.nodes(t, 2)
	w.leads(t, time.Millisecond)
	o := w.submit(t, operation.Ask{Ref: ref, Targets: operation.Selector{Nodes: nodes}, Trigger: operation.ByAdmin})
	testkit.Eventually(t, "its workflow is to start now", func() bool { return w.starts(t, "<=") == 1 })
	if now := w.settle(t, o.ID); now.Status != operation.Succeeded {
		t.Fatalf("it is %s: %s", now.Status, now.ErrorMessage)
	}
}
