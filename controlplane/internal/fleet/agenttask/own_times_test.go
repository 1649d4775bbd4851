package agenttask_test

import (
	"testing"
	"time"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/agenttask"
)

// What the parameters of a task decide is not what its type says: class, time of an
// attempt, and patience.
func TestATaskMayHaveTimesAndAClassOfItsOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.node(t)
	task, err := w.enqueue(w.ctx, agenttask.Request{
		Node: n, Type: agentwire.TypeHealthProbe, Class: agentwire.ClassExclusive, Window: 3 * time.Hour,
		Patience: 10 * time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	if task.Class != agentwire.ClassExclusive || task.Window != 3*time.Hour {
		t.Errorf("it is of class %s and an attempt may take %s", task.Class, task.Window)
	}
	if got := task.DeadlineAt.Sub(w.clock.now()); got != 3*time.Hour+10*time.Minute {
		t.Errorf("it may wait and last %s", got)
	}
	e := w.fetch(t, task)
	if got := e.ExpiresAt.Sub(e.IssuedAt); got != 3*time.Hour {
		t.Errorf("the node may take %s for it", got)
	}
	plain, err := w.enqueue(w.ctx, agenttask.Request{Node: w.node(t), Type: agentwire.TypeHealthProbe})
	spec, _ := agentwire.Lookup(agentwire.TypeHealthProbe)
	if err != nil || plain.Class != spec.Class || plain.Window != spec.Window {
		t.Errorf("another one does not have those of its type: %s, %s, %v", plain.Class, plain.Window, err)
	}
}

// One workflow waits for many tasks by one name, and is told only of those that end
// after it asked.
func TestAWorkflowIsToldOfManyTasksByOneName(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tasks := []agenttask.Task{
		w.ask(t, w.node(t), agentwire.TypeHealthProbe), w.ask(t, w.node(t), agentwire.TypeHealthProbe),
		w.ask(t, w.node(t), agentwire.TypeHealthProbe),
	}
	ids := []id.NodeTask{tasks[0].ID, tasks[1].ID, tasks[2].ID}
	if _, err := w.commands.Cancel(w.ctx, ids[0], "test"); err != nil {
		t.Fatal(err)
	}
	if n, err := w.commands.TellWhenEachEnded(w.ctx, ids, "operation-1", "changed"); err != nil || n != 2 {
		t.Fatalf("%d will end (%v), want 2", n, err)
	}
	ended, err := agenttask.Ended(w.ctx, w.db, ids)
	if err != nil || len(ended) != 1 || ended[0].ID != ids[0] {
		t.Fatalf("ended: %+v, %v", ended, err)
	}
	if _, err := w.commands.Cancel(w.ctx, ids[1], "test"); err != nil {
		t.Fatal(err)
	}
	const told = `SELECT count(*) FROM outbox_events WHERE aggregate_id = 'operation-1' AND envelope->>'name' = 'changed'`
	if got := w.count(t, told); got != 1 {
		t.Errorf("the workflow is told %d times, want once", got)
	}
}
