package allocation_test

import (
	"testing"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/rent/allocation"
)

// calm is the world without anything that goes wrong on purpose: the cleanup of a node
// begins with its release.
func (w *world) calm(tb testing.TB) {
	tb.Helper()
	w.cleanups.ready = true
	w.service = allocation.New(allocation.Config{
		DB: w.db, Tasks: w.agents, Cleanups: w.cleanups, Terminals: w.terminals,
	})
}

// asking counts the workflows that were started to ask for a cleanup.
func (w *world) asking(tb testing.TB) int {
	tb.Helper()
	return w.count(tb, `SELECT count(*) FROM outbox_events WHERE event_type = 'ReleaseAllocation'`)
}

func TestTheCleanupBeginsWithTheRelease(t *testing.T) {
	w := newWorld(t)
	w.nodes(t, 1)
	w.calm(t)
	a := w.release(t, w.active(t, allocation.Ask{}))
	if a.Status != allocation.Releasing {
		t.Fatalf("%s", a.Status)
	}
	now := w.get(t, a.ID)
	if now.Cleanup.IsZero() || now.Cleanup != w.cleanups.live.ID || w.cleanups.started != 1 || w.asking(t) != 0 {
		t.Fatalf("cleanup %s of %s, %d begun, %d workflows ask for one", now.Cleanup, w.cleanups.live.ID, w.cleanups.started,
			w.asking(t))
	}
	if got := w.cleanups.asked[0]; got.CleanupOf != a.ID {
		t.Fatalf("%+v", got)
	}
	if n := w.claims(t, a.ID); n != 1 {
		t.Fatalf("%d live claims before the node is clean", n)
	}
	w.cleanups.cleaned(t, a.Node)
	if now = w.get(t, a.ID); now.Status != allocation.Released || w.claims(t, a.ID) != 0 {
		t.Fatalf("%s with %d claims", now.Status, w.claims(t, a.ID))
	}
}

// A release is never refused because its cleanup cannot begin: the workflow asks for
// the cleanup, and what was done for it in the release is undone.
func TestAReleaseWhoseCleanupCannotBeginIsLeftToItsWorkflow(t *testing.T) {
	w := newWorld(t)
	w.nodes(t, 1)
	a := w.active(t, allocation.Ask{})
	w.calm(t)
	w.cleanups.refuse = fault.New(fault.Conflict, "plan_stale", "the node changed")
	if got := w.release(t, a); got.Status != allocation.Releasing {
		t.Fatalf("%s", got.Status)
	}
	if w.asking(t) != 1 || w.cleanups.started != 0 || !w.get(t, a.ID).Cleanup.IsZero() {
		t.Fatalf("%d workflows ask for a cleanup, %d begun", w.asking(t), w.cleanups.started)
	}
	if n := w.count(t, `SELECT count(*) FROM allocation_events WHERE allocation_id = $1 AND event = 'release'`, a.ID); n != 1 {
		t.Fatalf("%d entries about the release", n)
	}
	w.cleanups.refuse = nil
	w.clean(t, a)
	if w.cleanups.started != 1 {
		t.Fatalf("%d begun", w.cleanups.started)
	}
}
