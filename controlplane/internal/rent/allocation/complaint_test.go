package allocation_test

import (
	"strings"
	"testing"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/rent/allocation"
)

// complain gives an allocation back with a complaint.
func (w *world) complain(tb testing.TB, of id.Allocation) {
	tb.Helper()
	if _, err := w.service.Release(w.ctx, of, allocation.Leaving{
		Cause: allocation.ByTenant, Complaint: &allocation.Complaint{Category: "gpu", Text: "bad\x1b[2J"},
	}); err != nil {
		tb.Fatal(err)
	}
}

func (w *world) heldNodes(tb testing.TB) int {
	tb.Helper()
	return w.count(tb, `SELECT count(*) FROM nodes WHERE hold_reason LIKE 'the tenant of allocation%'`)
}

// A tenant cannot drain the fleet by complaining: not about nodes that it could not
// use, and about a few at a time only. Everything it said is kept.
func TestAttackDrainingTheFleetByComplaints(t *testing.T) {
	w := newWorld(t)
	w.nodes(t, 8)
	for _, a := range w.create(t, allocation.Ask{Count: 4}) { // nobody could use them
		w.complain(t, a.ID)
		w.provision(t, a)
	}
	if held := w.heldNodes(t); held != 0 {
		t.Errorf("%d nodes that nobody could use are held", held)
	}
	for range 4 {
		w.complain(t, w.active(t, allocation.Ask{}).ID)
	}
	if held := w.heldNodes(t); held != 2 {
		t.Errorf("%d nodes are held by complaints of one tenant", held)
	}
	if kept := w.count(t, `SELECT count(*) FROM allocations WHERE complaint IS NOT NULL`); kept != 8 {
		t.Errorf("%d complaints are kept", kept)
	}
	if noted := w.count(t, `SELECT count(*) FROM allocation_events WHERE event = 'complaint'`); noted != 8 {
		t.Errorf("%d complaints are in timelines", noted)
	}
	var reasons string
	if err := w.owner.QueryRow(t.Context(), `SELECT string_agg(hold_reason, ' ') FROM nodes`).Scan(&reasons); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(reasons, "\x1b") || !strings.Contains(reasons, "of this tenant in 30 days") {
		t.Errorf("operators read %q", reasons)
	}
}

// A complaint that comes after the release was asked for is kept, and one about a
// node that is held because it is not clean outlasts the cleaning.
func TestALateComplaintIsNotLost(t *testing.T) {
	w := newWorld(t)
	at := w.node(t, "n1")
	a := w.release(t, w.active(t, allocation.Ask{}))
	w.exec(t, `UPDATE nodes SET hold_reason = 'not proven clean', held_unclean = true, schedulable = false WHERE id = $1`, at)
	w.complain(t, a.ID)
	w.complain(t, a.ID) // the first stands
	if now := w.get(t, a.ID); now.Complaint == nil || now.Complaint.Category != "gpu" {
		t.Errorf("%+v", now.Complaint)
	}
	w.clean(t, a)
	w.cleanups.cleaned(t, at)
	n, err := node.Get(t.Context(), w.db, at)
	if err != nil || n.Schedulable || !strings.Contains(n.HoldReason, "complains") {
		t.Errorf("%q, schedulable %t, %v", n.HoldReason, n.Schedulable, err)
	}
}

// The paper of the handover is the newest from before the node was claimed, also
// after a second placement; one with words of an operator is for operators.
func TestTheReceiptOfTheHandoverIsOfTheNodeAtThatTime(t *testing.T) {
	w := newWorld(t)
	w.node(t, "n1")
	a := w.active(t, allocation.Ask{})
	paper := func(seq int, by string, age string) id.Certificate {
		c := id.New[id.Certificate]()
		w.exec(t, `INSERT INTO decommission_certificates (id, node_id, seq, kind, decommission_id, document, digest, key_id, issued_at, evidence_seq)
			VALUES ($1, $2, $3::bigint, 'handover_receipt', $4, jsonb_build_object('document', jsonb_build_object('downgrades', '[]'::jsonb, 'overrides',
			'[]'::jsonb, 'operation', jsonb_build_object('requested_by', $5::text, 'reason', 'r', 'actors', '[]'::jsonb))), $6, 'k',
			clock_timestamp() - $7::interval, $3::bigint)`, c, a.Node, int64(seq), id.NewString(), by, c.String(), age)
		return c
	}
	w.exec(t, `UPDATE allocations SET created_at = clock_timestamp() - interval '1 hour' WHERE id = $1`, a.ID)
	paper(1, "the control plane", "2 hours")
	want := paper(2, "the control plane", "30 minutes") // while the allocation was on the first node
	w.exec(t, `UPDATE allocation_resource_claims SET created_at = clock_timestamp() - interval '20 minutes'`)
	got, err := w.service.Receipts(t.Context(), a.ID)
	if err != nil || len(got) != 1 || got[0].ID != want {
		t.Errorf("%+v, %v, want %s", got, err, want)
	}
	paper(3, "Ann Operator (u-1)", "25 minutes")
	if got, err := w.service.Receipts(t.Context(), a.ID); err != nil || len(got) != 0 {
		t.Errorf("a tenant reads the words of an operator: %+v, %v", got, err)
	}
}
