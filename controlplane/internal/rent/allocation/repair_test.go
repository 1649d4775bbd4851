package allocation_test

import (
	"strings"
	"testing"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/rent/allocation"
)

func (w *world) repairs(tb testing.TB, of id.Allocation) []allocation.Repair {
	tb.Helper()
	list, err := w.service.Repairs(tb.Context(), of, postgres.Slice[id.Repair]{Limit: 10})
	if err != nil {
		tb.Fatal(err)
	}
	return list
}

func (w *world) aside(tb testing.TB, of id.Node) string {
	tb.Helper()
	n, err := node.Get(tb.Context(), w.db, of)
	if err != nil {
		tb.Fatal(err)
	}
	return n.HoldReason
}

// A tenant keeps a node that is repaired: the allocation stays active, the time is
// kept to be credited, and terminals end.
func TestATenantKeepsANodeThatIsRepaired(t *testing.T) {
	w := newWorld(t)
	w.node(t, "n1")
	a := w.active(t, allocation.Ask{})
	for range 2 { // saying it twice changes nothing
		if _, err := w.service.BeginRepair(w.ctx, a.ID, "a fan is replaced"); err != nil {
			t.Fatal(err)
		}
	}
	if now := w.get(t, a.ID); now.Status != allocation.Active || len(w.terminals.ended) != 1 {
		t.Errorf("%s, terminals ended on %v", now.Status, w.terminals.ended)
	}
	if got := w.repairs(t, a.ID); len(got) != 1 || got[0].EndedAt != nil || got[0].Reason != "a fan is replaced" {
		t.Fatalf("%+v", got)
	}
	if w.aside(t, a.Node) == "" {
		t.Error("the node could go to others unrepaired")
	}
	if _, err := w.service.EndRepair(w.ctx, a.ID, "it runs"); err != nil {
		t.Fatal(err)
	}
	if got := w.repairs(t, a.ID); len(got) != 1 || got[0].EndedAt == nil || got[0].Because != "it runs" {
		t.Fatalf("%+v", got)
	}
	if _, err := w.service.EndRepair(w.ctx, a.ID, "again"); fault.CodeOf(err) != "allocation_not_repairing" {
		t.Error(err)
	}
	if n := w.count(t, `SELECT count(*) FROM outbox_events WHERE event_type LIKE 'allocation.repair_%' AND project_id = $1`,
		w.project); n != 2 {
		t.Errorf("%d events", n)
	}
}

// A tenant can leave while the node is repaired: the time ends with that, and the
// node stays aside until somebody says that it is repaired.
func TestATenantCanLeaveDuringARepair(t *testing.T) {
	w := newWorld(t)
	w.node(t, "n1")
	a := w.active(t, allocation.Ask{})
	if _, err := w.service.BeginRepair(w.ctx, a.ID, "a fan is replaced"); err != nil {
		t.Fatal(err)
	}
	if now := w.release(t, a); now.Status != allocation.Releasing {
		t.Fatal(now.Status)
	}
	if got := w.repairs(t, a.ID); len(got) != 1 || got[0].EndedAt == nil {
		t.Fatalf("%+v", got)
	}
	if w.aside(t, a.Node) == "" {
		t.Error("the node goes to others unrepaired")
	}
	if _, err := w.service.BeginRepair(w.ctx, a.ID, "again"); fault.CodeOf(err) != "allocation_state_conflict" {
		t.Error(err)
	}
	if _, err := w.service.EndRepair(w.ctx, a.ID, "it runs"); err != nil {
		t.Fatal(err)
	}
	if n, err := node.Get(t.Context(), w.db, a.Node); err != nil || n.HoldReason != "" && !n.HeldUnclean {
		t.Errorf("the node is kept aside: %q, %v", n.HoldReason, err)
	}
}

// The end of a repair leaves what else the node is held for: the complaint with which
// its tenant left, and what an operator said.
func TestTheEndOfARepairLeavesOtherHolds(t *testing.T) {
	w := newWorld(t)
	w.node(t, "n1")
	a := w.active(t, allocation.Ask{})
	if _, err := w.service.BeginRepair(w.ctx, a.ID, "a fan is replaced"); err != nil {
		t.Fatal(err)
	}
	w.complain(t, a.ID)
	if _, err := w.service.EndRepair(w.ctx, a.ID, "it runs"); err != nil {
		t.Fatal(err)
	}
	if why := w.aside(t, a.Node); !strings.Contains(why, "complains") || strings.Contains(why, "repaired") {
		t.Errorf("the node is held because %q", why)
	}
	if _, err := w.service.EndRepair(w.ctx, a.ID, "again"); fault.CodeOf(err) != "allocation_not_repairing" {
		t.Error(err)
	}
}
