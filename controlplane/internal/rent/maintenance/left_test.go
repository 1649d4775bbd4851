package maintenance_test

import (
	"testing"
	"time"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/rent/allocation"
	"gpuaas/controlplane/internal/rent/maintenance"
)

// moves places an allocation on another node, as provisioning does.
func (w *world) moves(tb testing.TB, a allocation.Allocation, to id.Node) allocation.Allocation {
	tb.Helper()
	w.exec(tb, `UPDATE allocation_resource_claims SET node_id = $2 WHERE allocation_id = $1`, a.ID, to)
	w.exec(tb, `UPDATE allocations SET node_id = $2 WHERE id = $1`, a.ID, to)
	return w.allocation(tb, a.ID)
}

// Maintenance is of a node: an allocation that was placed on another one is left alone
// there, and so is that node.
func TestMaintenanceDoesNotFollowTheAllocation(t *testing.T) {
	w := newWorld(t)
	due, begun, asked := w.rented(t, "n1"), w.rented(t, "n2"), w.rented(t, "n3")
	md := w.announced(t, due, maintenance.Plan{Kind: maintenance.Release})
	mb := w.announced(t, begun, maintenance.Plan{Kind: maintenance.Reboot})
	ma := w.announced(t, asked, maintenance.Plan{Kind: maintenance.Release, ConsentAsked: true})
	for a, m := range map[*allocation.Allocation]maintenance.Maintenance{&due: md, &begun: mb, &asked: ma} {
		*a = w.moves(t, *a, w.node(t, "other-"+a.Hostname))
		w.opens(t, m.ID)
	}
	w.passes(t, md.ID)
	if w.permits(t, due) {
		t.Error("operations may end what the tenant has on the other node")
	}
	_, err := w.service.Begin(w.operator, mb.ID)
	wantCode(t, err, "maintenance_state_conflict")
	_, err = w.service.Answer(w.member, ma.ID, maintenance.Reply{Agrees: true, Now: true})
	wantCode(t, err, "maintenance_state_conflict")
	w.is(t, mb.ID, maintenance.Cancelled)
	w.is(t, ma.ID, maintenance.Cancelled)
	w.tend(t)
	w.is(t, md.ID, maintenance.Cancelled)
	for _, a := range []allocation.Allocation{due, begun, asked} {
		if w.allocation(t, a.ID).Status != allocation.Active || w.aside(t, a.Node) != "" {
			t.Errorf("on %s it is %s; kept aside: %q", a.Hostname, w.allocation(t, a.ID).Status, w.aside(t, a.Node))
		}
	}
}

// A reboot begins in its window: not after it, unless its tenant said now.
func TestNothingBeginsAfterTheWindow(t *testing.T) {
	w := newWorld(t)
	late, now := w.rented(t, "n1"), w.rented(t, "n2")
	ml, mn := w.announced(t, late, maintenance.Plan{Kind: maintenance.Reboot}),
		w.announced(t, now, maintenance.Plan{Kind: maintenance.Reboot})
	if _, err := w.service.Answer(w.member, mn.ID, maintenance.Reply{Agrees: true, Now: true}); err != nil {
		t.Fatal(err)
	}
	w.passes(t, ml.ID)
	w.passes(t, mn.ID)
	_, err := w.service.Begin(w.operator, ml.ID)
	wantCode(t, err, "maintenance_not_open")
	if _, err := w.service.Begin(w.operator, mn.ID); err != nil {
		t.Error(err)
	}
}

// Who answers, cancels or finishes before the passing of time was seen to meets a
// maintenance that knows that its tenant has left.
func TestATenantWhoHasLeftIsAskedNothing(t *testing.T) {
	w := newWorld(t)
	made := map[string]maintenance.Maintenance{}
	for hostname, kind := range map[string]maintenance.Kind{
		"answered": maintenance.Pause, "cancelled": maintenance.Release, "moot": maintenance.Pause,
		"finished": maintenance.Release,
	} {
		a := w.rented(t, hostname)
		made[hostname] = w.announced(t, a, maintenance.Plan{Kind: kind, ConsentAsked: true})
		if _, err := w.allocations.Release(w.member, a.ID, allocation.Leaving{Cause: allocation.ByTenant}); err != nil {
			t.Fatal(err)
		}
	}
	_, err := w.service.Answer(w.member, made["answered"].ID, maintenance.Reply{Agrees: true})
	wantCode(t, err, "maintenance_state_conflict")
	w.is(t, made["answered"].ID, maintenance.Cancelled)
	_, err = w.service.Cancel(w.operator, made["cancelled"].ID, "not needed")
	wantCode(t, err, "maintenance_state_conflict")
	w.is(t, made["cancelled"].ID, maintenance.UnderWay)
	if _, err := w.service.Cancel(w.operator, made["moot"].ID, "not needed"); err != nil {
		t.Error(err)
	}
	if _, err := w.service.Finish(w.operator, made["finished"].ID, "moved"); err != nil {
		t.Error(err)
	}
	w.is(t, made["finished"].ID, maintenance.Done)
	if w.aside(t, made["finished"].Node) != "" {
		t.Errorf("the node is kept: %q", w.aside(t, made["finished"].Node))
	}
}

// The repair of a maintenance ends with the maintenance and not by hand; over a repair
// that was not announced no maintenance begins.
func TestARepairBelongsToItsMaintenance(t *testing.T) {
	w := newWorld(t)
	a := w.rented(t, "n1")
	m := w.announced(t, a, maintenance.Plan{Kind: maintenance.Pause, NotBefore: time.Now().Add(-time.Minute)})
	if _, err := w.allocations.BeginRepair(w.operator, a.ID, "a fan is replaced"); err != nil {
		t.Fatal(err)
	}
	_, err := w.service.Begin(w.operator, m.ID)
	wantCode(t, err, "allocation_repairing")
	w.is(t, m.ID, maintenance.Announced)
	if _, err := w.allocations.EndRepair(w.operator, a.ID, "replaced"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.service.Begin(w.operator, m.ID); err != nil {
		t.Fatal(err)
	}
	_, err = w.allocations.EndRepair(w.operator, a.ID, "replaced")
	wantCode(t, err, "maintenance_under_way")
	if _, err := w.service.Finish(w.operator, m.ID, "replaced"); err != nil {
		t.Fatal(err)
	}
	if n := w.count(t, `SELECT count(*) FROM allocation_repairs WHERE ended_at IS NULL`); n != 0 || w.aside(t, a.Node) != "" {
		t.Errorf("%d repairs go on; kept aside: %q", n, w.aside(t, a.Node))
	}
}

// A node that nobody was let in to needs no cleaning, and its claim ends at once: it
// is kept for the maintenance all the same.
func TestANodeIsKeptWhoseTenantNeverGotIt(t *testing.T) {
	w := newWorld(t)
	a := w.rented(t, "n1")
	w.exec(t, `UPDATE allocations SET status = 'provisioning', active_at = NULL WHERE id = $1`, a.ID)
	m := w.announced(t, a, maintenance.Plan{Kind: maintenance.Release})
	if _, err := w.allocations.ForceCleanup(w.operator, a.ID, true, "it is stuck"); err != nil {
		t.Fatal(err)
	}
	if w.aside(t, a.Node) != allocation.HeldForMaintenance(m.ID).Reason {
		t.Errorf("the node could go to others: %q", w.aside(t, a.Node))
	}
	w.tend(t)
	w.is(t, m.ID, maintenance.UnderWay)
}
