package maintenance_test

import (
	"testing"
	"time"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/rent/allocation"
	"gpuaas/controlplane/internal/rent/maintenance"
)

func TestTheLifecycleIsSound(t *testing.T) {
	for _, err := range maintenance.Lifecycle.Validate() {
		t.Error(err)
	}
}

// A tenant who is only told loses the allocation at the deadline and not before, by
// the command that releases allocations. The node goes to nobody until the maintenance
// is finished.
func TestAnAllocationEndsAtTheAnnouncedTimeAndNotBefore(t *testing.T) {
	w := newWorld(t)
	a := w.rented(t, "n1")
	m := w.announced(t, a, maintenance.Plan{Kind: maintenance.Release})
	w.opens(t, m.ID)
	w.tend(t)
	if now := w.allocation(t, a.ID); now.Status != allocation.Active || w.permits(t, a) {
		t.Fatalf("before its time it is %s, and operations may end it: %t", now.Status, w.permits(t, a))
	}
	w.passes(t, m.ID)
	if !w.permits(t, a) {
		t.Error("no operation may begin at the deadline")
	}
	w.tend(t)
	now := w.allocation(t, a.ID)
	if now.Status != allocation.Releasing || now.Release.Cause != allocation.ByAdmin ||
		now.Release.Reason != "announced maintenance: a fan is replaced" {
		t.Errorf("%s, %+v", now.Status, now.Release)
	}
	w.is(t, m.ID, maintenance.UnderWay)
	if w.aside(t, a.Node) != allocation.HeldForMaintenance(m.ID).Reason {
		t.Errorf("the node could go to others: %q", w.aside(t, a.Node))
	}
	if _, err := w.service.Finish(w.operator, m.ID, "moved"); err != nil {
		t.Fatal(err)
	}
	w.is(t, m.ID, maintenance.Done)
	if w.aside(t, a.Node) != "" {
		t.Errorf("the node is still kept: %q", w.aside(t, a.Node))
	}
}

// Where consent is asked for, nothing happens without it; with it the deadline counts,
// which is what the tenant was told.
func TestNothingHappensWithoutTheConsentThatIsAskedFor(t *testing.T) {
	w := newWorld(t)
	silent, refused, agreed := w.rented(t, "n1"), w.rented(t, "n2"), w.rented(t, "n3")
	asked := maintenance.Plan{Kind: maintenance.Release, ConsentAsked: true}
	ms, mr, ma := w.announced(t, silent, asked), w.announced(t, refused, asked), w.announced(t, agreed, asked)
	for of, r := range map[id.Maintenance]maintenance.Reply{
		mr.ID: {Text: "our training ends on Sunday"}, ma.ID: {Agrees: true, Text: "fine"},
	} {
		if _, err := w.service.Answer(w.member, of, r); err != nil {
			t.Fatal(err)
		}
	}
	w.opens(t, ma.ID)
	if w.permits(t, agreed) {
		t.Error("an operation may begin before the time that the tenant was told")
	}
	for _, m := range []maintenance.Maintenance{ms, mr, ma} {
		w.passes(t, m.ID)
	}
	if !w.permits(t, agreed) {
		t.Error("no operation may begin at the deadline")
	}
	if w.permits(t, silent) || w.permits(t, refused) {
		t.Error("operations may begin without consent")
	}
	w.tend(t)
	w.is(t, ms.ID, maintenance.Lapsed)
	w.is(t, mr.ID, maintenance.Lapsed)
	done := w.is(t, ma.ID, maintenance.UnderWay)
	if done.Answer.By != "ann" || done.Answer.Name != "Ann" || done.Answer.Text != "fine" {
		t.Errorf("the answer is %+v", done.Answer)
	}
	for of, want := range map[id.Allocation]allocation.Status{
		silent.ID: allocation.Active, refused.ID: allocation.Active, agreed.ID: allocation.Releasing,
	} {
		if now := w.allocation(t, of); now.Status != want {
			t.Errorf("it is %s, want %s", now.Status, want)
		}
	}
}

// A tenant who agrees at once gives the allocation back with that, unless it is
// protected.
func TestConsentNowEndsTheAllocationAtOnce(t *testing.T) {
	w := newWorld(t)
	a := w.rented(t, "n1")
	w.exec(t, `UPDATE allocations SET protected = true WHERE id = $1`, a.ID)
	m := w.announced(t, a, maintenance.Plan{Kind: maintenance.Release})
	if _, err := w.service.Answer(w.member, m.ID, maintenance.Reply{Agrees: true}); err != nil {
		t.Fatal(err)
	}
	if w.allocation(t, a.ID).Status != allocation.Active {
		t.Fatal("it ended before its time")
	}
	_, err := w.service.Answer(w.member, m.ID, maintenance.Reply{Agrees: true, Now: true})
	wantCode(t, err, "allocation_protected")
	w.exec(t, `UPDATE allocations SET protected = false WHERE id = $1`, a.ID)
	after, err := w.service.Answer(w.member, m.ID, maintenance.Reply{Agrees: true, Now: true})
	if err != nil || after.Status != maintenance.UnderWay || !after.BeginsNow {
		t.Errorf("%+v, %v", after, err)
	}
	if now := w.allocation(t, a.ID); now.Status != allocation.Releasing {
		t.Errorf("it is %s", now.Status)
	}
	_, err = w.service.Answer(w.member, m.ID, maintenance.Reply{Text: "after all not"})
	wantCode(t, err, "maintenance_state_conflict")
}

// Who is told and not asked cannot decline.
func TestWhatIsOnlyToldCannotBeDeclined(t *testing.T) {
	w := newWorld(t)
	m := w.announced(t, w.rented(t, "n1"), maintenance.Plan{Kind: maintenance.Reboot})
	_, err := w.service.Answer(w.member, m.ID, maintenance.Reply{Text: "not now"})
	wantCode(t, err, "consent_not_asked")
	w.is(t, m.ID, maintenance.Announced)
}

// The tenant keeps the node through a reboot: it begins within its window only, the
// allocation is being repaired meanwhile, and the node is what it was afterwards.
func TestATenantKeepsTheNodeThroughAReboot(t *testing.T) {
	w := newWorld(t)
	a := w.rented(t, "n1")
	m := w.announced(t, a, maintenance.Plan{Kind: maintenance.Reboot, NotBefore: time.Now().Add(time.Hour)})
	_, err := w.service.Begin(w.operator, m.ID)
	wantCode(t, err, "maintenance_not_open")
	w.opens(t, m.ID)
	if _, err := w.service.Begin(w.operator, m.ID); err != nil {
		t.Fatal(err)
	}
	if len(w.terminals.ended) != 1 || w.terminals.ended[0] != a.Node {
		t.Errorf("terminals ended on %v", w.terminals.ended)
	}
	if n, err := node.Get(t.Context(), w.db, a.Node); err != nil || n.HoldReason == "" {
		t.Errorf("the node is not set aside: %+v, %v", n, err)
	}
	w.passes(t, m.ID)
	w.tend(t) // one that is under way ends when operators say so
	w.is(t, m.ID, maintenance.UnderWay)
	if _, err := w.service.Finish(w.operator, m.ID, "restarted"); err != nil {
		t.Fatal(err)
	}
	w.is(t, m.ID, maintenance.Done)
	if n, err := node.Get(t.Context(), w.db, a.Node); err != nil || n.HoldReason != "" {
		t.Errorf("the node is still set aside: %q, %v", n.HoldReason, err)
	}
	if w.allocation(t, a.ID).Status != allocation.Active {
		t.Error("the tenant lost the node")
	}
	if n := w.count(t, `SELECT count(*) FROM allocation_repairs WHERE allocation_id = $1 AND maintenance_id = $2
		AND ended_at > began_at AND ended_because = 'restarted'`, a.ID, m.ID); n != 1 {
		t.Errorf("%d intervals to credit", n)
	}
}

// A reboot that needs consent does not begin without it, and lapses.
func TestARebootWithoutConsentLapses(t *testing.T) {
	w := newWorld(t)
	a := w.rented(t, "n1")
	m := w.announced(t, a, maintenance.Plan{Kind: maintenance.Reboot, ConsentAsked: true})
	w.opens(t, m.ID)
	_, err := w.service.Begin(w.operator, m.ID)
	wantCode(t, err, "maintenance_not_open")
	w.passes(t, m.ID)
	w.tend(t)
	w.is(t, m.ID, maintenance.Lapsed)
	if n := w.count(t, `SELECT count(*) FROM allocation_repairs`); n != 0 {
		t.Errorf("%d repairs", n)
	}
}

// One maintenance at a time is announced for an allocation; what was taken back makes
// room for another, and nobody ends because of it.
func TestAnAnnouncementCanBeTakenBack(t *testing.T) {
	w := newWorld(t)
	a := w.rented(t, "n1")
	m := w.announced(t, a, maintenance.Plan{Kind: maintenance.Release})
	_, _, err := w.service.Announce(w.operator, maintenance.Plan{
		Nodes: []id.Node{a.Node}, Kind: maintenance.Pause, DueAt: time.Now().Add(time.Hour), Reason: "another one",
	})
	wantCode(t, err, "nobody_to_tell")
	if _, err := w.service.Cancel(w.operator, m.ID, "not needed"); err != nil {
		t.Fatal(err)
	}
	w.passes(t, m.ID)
	w.tend(t)
	if w.allocation(t, a.ID).Status != allocation.Active || w.permits(t, a) {
		t.Error("what was taken back still counts")
	}
	w.announced(t, a, maintenance.Plan{Kind: maintenance.Pause})
}

// An announcement for a rack reaches the tenants there and leaves out what has none.
func TestASelectorReachesTheTenantsOfARack(t *testing.T) {
	w := newWorld(t)
	free := w.node(t, "n0")
	w.rented(t, "n1")
	w.rented(t, "n2")
	p := maintenance.Plan{
		Where: maintenance.Where{Rack: "c07"}, Kind: maintenance.Pause, DueAt: time.Now().Add(time.Hour), Reason: "power",
	}
	made, left, err := w.service.Announce(w.operator, p)
	if err != nil || len(made) != 2 || len(left) != 0 || made[0].Announcement != made[1].Announcement {
		t.Fatalf("%+v, %+v, %v", made, left, err)
	}
	if n := w.count(t, `SELECT count(*) FROM outbox_events WHERE event_type = 'allocation.maintenance_announced' AND project_id = $1`,
		w.project); n != 2 {
		t.Errorf("%d tenants were told", n)
	}
	p.Where = maintenance.Where{}
	p.Nodes = []id.Node{free}
	_, _, err = w.service.Announce(w.operator, p)
	wantCode(t, err, "nobody_to_tell")
	p.Nodes = []id.Node{id.New[id.Node]()}
	_, _, err = w.service.Announce(w.operator, p)
	wantCode(t, err, "node_not_found")
	p.DueAt = time.Now().Add(-time.Hour)
	_, _, err = w.service.Announce(w.operator, p)
	wantCode(t, err, "validation_error")
}

// A reboot or pause of an allocation that ends otherwise ends with it. A node whose
// tenant had to leave is kept from the moment in which the tenant leaves.
func TestMaintenanceEndsWithItsAllocation(t *testing.T) {
	w := newWorld(t)
	a, b := w.rented(t, "n1"), w.rented(t, "n2")
	gone, moot := w.announced(t, a, maintenance.Plan{Kind: maintenance.Release}),
		w.announced(t, b, maintenance.Plan{Kind: maintenance.Pause})
	for _, of := range []id.Allocation{a.ID, b.ID} {
		if _, err := w.allocations.Release(w.member, of, allocation.Leaving{Cause: allocation.ByTenant}); err != nil {
			t.Fatal(err)
		}
	}
	if w.aside(t, a.Node) != allocation.HeldForMaintenance(gone.ID).Reason || w.aside(t, b.Node) != "" {
		t.Errorf("kept aside: %q, %q", w.aside(t, a.Node), w.aside(t, b.Node))
	}
	w.tend(t)
	w.is(t, gone.ID, maintenance.UnderWay)
	w.is(t, moot.ID, maintenance.Cancelled)
}

// A tenant is reminded once per mark.
func TestATenantIsRemindedBeforeTheTime(t *testing.T) {
	w := newWorld(t)
	m := w.announced(t, w.rented(t, "n1"), maintenance.Plan{
		Kind: maintenance.Release, DueAt: time.Now().Add(48 * time.Hour),
	})
	reminded := func() int {
		w.tend(t)
		return w.count(t, `SELECT count(*) FROM outbox_events WHERE event_type = 'allocation.maintenance_due'`)
	}
	if n := reminded(); n != 0 {
		t.Fatalf("reminded %d times two days before", n)
	}
	for i, left := range []string{"23 hours", "50 minutes", "5 minutes"} {
		w.exec(t, `UPDATE maintenances SET created_at = clock_timestamp() - interval '10 days', not_before = clock_timestamp(),
			due_at = clock_timestamp() + $2::interval WHERE id = $1`, m.ID, left)
		if first, again := reminded(), reminded(); first != i+1 || again != i+1 {
			t.Errorf("%s before: %d, then %d", left, first, again)
		}
	}
}
