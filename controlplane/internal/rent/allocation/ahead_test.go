package allocation_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/rent/allocation"
	"gpuaas/testkit"
)

// leads has allocations provisioned ahead of their workflows until the test ends.
func (w *world) leads(tb testing.TB) {
	tb.Helper()
	ahead := outbox.NewAhead(outbox.AheadConfig{DB: w.db, Lease: time.Hour})
	ctx, stop := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() { ahead.Run(ctx) })
	tb.Cleanup(func() { stop(); group.Wait() })
	testkit.Eventually(tb, "it leads", ahead.Running)
	w.service = allocation.New(allocation.Config{
		DB: w.db, Tasks: w.agents, Cleanups: w.cleanups, Terminals: w.terminals, Ahead: ahead,
	})
}

// provisions counts the workflows that are to start for allocations: at once, or when
// the lease is over.
func (w *world) provisions(tb testing.TB, when string) int {
	tb.Helper()
	return w.count(tb, `SELECT count(*) FROM outbox_events WHERE event_type = 'ProvisionAllocation' AND status = 'pending'
		AND next_attempt_at `+when+` clock_timestamp()`)
}

// An allocation whose node does what it is asked for becomes active without a workflow.
func TestAnAllocationIsProvisionedAheadOfItsWorkflow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.nodes(t, 2)
	w.leads(t)
	made := w.create(t, allocation.Ask{Count: 2})
	for _, a := range made {
		testkit.Eventually(t, "the allocation is active", func() bool { return w.get(t, a.ID).Status == allocation.Active })
	}
	testkit.Eventually(t, "no workflow is to start", func() bool {
		return w.provisions(t, ">")+w.provisions(t, "<=") == 0
	})
	entries, err := w.service.Timeline(t.Context(), made[0].ID, postgres.Slice[int64]{Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	if last := entries[len(entries)-1]; last.Event != string(allocation.Ready) || last.ActorKind != "system" {
		t.Errorf("%s by %s %s", last.Event, last.ActorKind, last.Actor)
	}
}

// One whose node does not answer at once is left to its workflow, which goes on.
func TestAnAllocationWhoseNodeIsSlowIsLeftToItsWorkflow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.nodes(t, 1)
	w.leads(t)
	w.agents.silent = true
	a := w.create(t, allocation.Ask{})[0]
	testkit.Eventually(t, "its workflow is to start now", func() bool { return w.provisions(t, "<=") == 1 })
	if now := w.get(t, a.ID); now.Status != allocation.Provisioning {
		t.Fatalf("it is %s", now.Status)
	}
	w.agents.mu.Lock()
	w.agents.silent = false
	w.agents.mu.Unlock()
	if now := w.provision(t, a); now.Status != allocation.Active {
		t.Fatalf("it is %s: %+v", now.Status, now.Failure)
	}
}

// A release meets an allocation that is being provisioned ahead as it meets a workflow:
// the allocation ends as failed, and nobody is let in behind it.
func TestAReleaseMeetsAnAllocationAheadOfItsWorkflow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.nodes(t, 1)
	w.leads(t)
	w.agents.silent = true
	a := w.create(t, allocation.Ask{})[0]
	testkit.Eventually(t, "it is being provisioned", func() bool {
		return w.get(t, a.ID).Status == allocation.Provisioning
	})
	w.release(t, a)
	testkit.Eventually(t, "its workflow is to start now", func() bool { return w.provisions(t, "<=") == 1 })
	if now := w.provision(t, a); now.Status != allocation.Failed || now.Failure.Code != allocation.CodeCancelled {
		t.Fatalf("it is %s: %+v", now.Status, now.Failure)
	}
}
