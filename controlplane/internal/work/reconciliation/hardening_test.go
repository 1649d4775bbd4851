package reconciliation_test

import (
	"context"
	"testing"
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/postgres/postgrestest"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/reconciliation"
)

// odd is a MAAS that answers questions by id in its own way.
type odd struct {
	*plainMAAS
	read func(ctx context.Context, ids []string) ([]reconciliation.Machine, error)
}

func (o *odd) Open(context.Context, id.Site) (reconciliation.Region, error) { return o, nil }

func (o *odd) Read(ctx context.Context, ids []string) ([]reconciliation.Machine, error) {
	return o.read(ctx, ids)
}

func TestARegionThatWasReinstalledQuarantinesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 400)
	w.cycle(t)
	clear(w.maas.machines)
	tripped := false
	for range 6 {
		tripped = tripped || w.cycle(t).Outcome == reconciliation.Tripped
	}
	if n := w.quarantined(t); n > 0 || !tripped {
		t.Errorf("%d healthy nodes are quarantined; breaker open: %t", n, tripped)
	}
}

func TestMoreThanOneLookCanReadTripTheBreaker(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 900)
	w.settings.MaxQuarantinePercent = 50
	w.restart()
	w.cycle(t)
	w.releaseAll(0, 900)
	if o := w.cycle(t).Outcome; o != reconciliation.Tripped || w.quarantined(t) != 0 {
		t.Errorf("outcome %s, %d nodes are quarantined", o, w.quarantined(t))
	}
}

func TestOneMachineThatCannotBeReadDoesNotStopTheSweep(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 60)
	w.regions = &odd{plainMAAS: w.maas, read: func(ctx context.Context, ids []string) ([]reconciliation.Machine, error) {
		for _, i := range ids {
			if i == machineOf(7) {
				return nil, errAway
			}
		}
		return w.maas.Read(ctx, ids)
	}}
	w.restart()
	for range 24 { // two hours
		w.cycle(t)
	}
	if n := w.count(t, `SELECT count(*) FROM node_maas_state WHERE last_reconciled_at < $1`,
		w.time.Add(-70*time.Minute)); n != 1 {
		t.Errorf("%d machines were not read for an hour, not the one", n)
	}
}

func TestWhatCannotBeKeptOfOneMachineDoesNotBlockTheOthers(t *testing.T) {
	w := newWorld(t, 3)
	w.cycle(t)
	w.maas.machines[machineOf(0)].Hostname = "x\x00y"
	w.maas.set(machineOf(1), "Ready", reconciliation.Free)
	run := w.asked(t, reconciliation.RunRequest{Full: true})
	if run.Outcome != reconciliation.Partly || w.status(t, 1) != node.Quarantined {
		t.Errorf("outcome %s, the other node is %s", run.Outcome, w.status(t, 1))
	}
}

func TestAMAASThatHangsIsNotAskedForHours(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 300)
	w.cycle(t)
	asked := 0
	w.regions = &odd{plainMAAS: w.maas, read: func(context.Context, []string) ([]reconciliation.Machine, error) {
		asked++
		w.time = w.time.Add(3 * time.Minute)
		return nil, unreachable
	}}
	w.restart()
	run := w.asked(t, reconciliation.RunRequest{Full: true})
	if asked > 6 || run.Outcome != reconciliation.Partly || run.EndedAt == nil {
		t.Errorf("it was asked %d times; outcome %s", asked, run.Outcome)
	}
	w.maas.noEvents, w.maas.noExceptions, asked = true, true, 0
	if run := w.asked(t, reconciliation.RunRequest{Full: true}); asked != 0 || run.Outcome != reconciliation.Unheard {
		t.Errorf("a MAAS that answered nothing was asked %d times more; outcome %s", asked, run.Outcome)
	}
}

func TestALookIsNotActedUponMuchLater(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 200)
	w.cycle(t)
	w.maas.set(machineOf(0), "Failed testing", reconciliation.Failed)
	if _, err := w.service.Reconcile(w.ctx, reconciliation.Input{Site: w.at, Run: newRun()}); err != nil {
		t.Fatal(err)
	}
	w.time = w.time.Add(time.Minute)
	w.suspect(1)
	w.regions = &odd{plainMAAS: w.maas, read: func(ctx context.Context, ids []string) ([]reconciliation.Machine, error) {
		w.time = w.time.Add(5 * time.Minute) // for a machine that is read after the listing
		w.maas.machines[machineOf(0)] = w.healthy(0)
		return w.maas.Read(ctx, ids)
	}}
	w.restart()
	w.look(t)
	if w.quarantined(t) > 0 {
		t.Error("a node is quarantined whose machine is well")
	}
}

func TestASuspicionAboutAFormerNodeIsForgotten(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	w.cycle(t)
	w.suspect(0)
	w.exec(t, `UPDATE nodes SET status = 'deleted', schedulable = false WHERE id = $1`, w.nodes[0])
	w.cycle(t)
	if n := w.count(t, `SELECT count(*) FROM reconciliation_suspicions`); n != 0 {
		t.Errorf("%d suspicions are left", n)
	}
}

// What a disabled site has left is not looked into again and again.
func TestASuspicionOfADisabledSiteIsLookedIntoOnlyWhileItHasNodes(t *testing.T) {
	w := newWorld(t, 1)
	w.cycle(t)
	w.suspect(0)
	w.exec(t, `UPDATE maas_sites SET status = 'disabled' WHERE id = $1`, w.at)
	runs := func() int { return w.count(t, `SELECT count(*) FROM reconciliation_runs WHERE trigger = 'suspicion'`) }
	w.exec(t, `UPDATE nodes SET status = 'deleted', schedulable = false`)
	if err := w.service.Tend(w.ctx); err != nil || runs() != 0 {
		t.Errorf("without nodes: %d runs, %v", runs(), err)
	}
	w.exec(t, `UPDATE nodes SET status = 'active'`)
	if err := w.service.Tend(w.ctx); err != nil || runs() != 1 {
		t.Errorf("with a node: %d runs, %v", runs(), err)
	}
}

func TestASuspicionThatCouldNotBeLookedIntoStays(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	w.cycle(t)
	delete(w.maas.machines, machineOf(1))
	w.suspect(1)
	w.maas.noFind = true
	w.cycle(t)
	if n := w.count(t, `SELECT count(*) FROM reconciliation_suspicions`); n != 1 {
		t.Errorf("%d suspicions are left", n)
	}
	w.maas.noFind = false
	if w.cycle(t); w.status(t, 1) != node.Quarantined {
		t.Errorf("the node is %s", w.status(t, 1))
	}
}

func TestASiteWhoseEventsAreNeverAnsweredIsStale(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.cycle(t)
	began := w.time
	w.maas.noEvents = true
	for i := range 8 { // each cycle has something that needs a second look
		w.maas.machines[machineOf(0)].Hostname = w.hostname(i % 2)
		w.suspect(0)
		w.cycle(t)
	}
	var last time.Time
	if err := w.db.QueryRow(w.ctx, `SELECT last_informed_at FROM reconciliation_sites`).Scan(&last); err != nil {
		t.Fatal(err)
	}
	if last.After(began) {
		t.Errorf("it counts as informed since %s", last)
	}
}

func TestNothingNewIsWrittenAboutWhatDoesNotChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 10)
	m := w.maas.machines[machineOf(0)]
	m.IPs = append(m.IPs, m.IPs...)
	w.maas.set(machineOf(1), "Testing", reconciliation.Maintenance)
	for range 3 {
		w.cycle(t)
	}
	const written = `SELECT (SELECT count(*) FROM node_events) + (SELECT count(*) FROM outbox_events) + (SELECT coalesce(sum(looks), 0) FROM reconciliation_findings)`
	before := w.count(t, written)
	for range 20 {
		w.cycle(t)
	}
	if after := w.count(t, written); after != before {
		t.Errorf("%d entries were written although nothing changed", after-before)
	}
	if n := w.count(t, `SELECT count(*) FROM node_maas_state WHERE last_reconciled_at < $1`,
		w.time.Add(-70*time.Minute)); n != 0 {
		t.Errorf("%d machines were not read for an hour", n)
	}
}

func TestAControlPlaneThatOnlyWatchesSettlesNoJobs(t *testing.T) {
	w := newWorld(t, 2)
	w.settings.DryRun = true
	w.restart()
	w.jobs.under = []bringup.Working{{Kind: "onboarding", ID: "1", Parked: true}}
	w.jobs.reached["1"] = true
	if r := w.cycle(t); len(r.Report.Settled) != 0 {
		t.Errorf("settled are %v", r.Report.Settled)
	}
}

func TestReportsStaySmall(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 400)
	w.cycle(t)
	w.releaseAll(0, 400)
	w.cycle(t)
	run := w.cycle(t)
	if len(run.Report.Intended) != 100 || run.Report.IntendedTotal != 400 {
		t.Errorf("%d of %d actions are named", len(run.Report.Intended), run.Report.IntendedTotal)
	}
}

func TestAHeldNodeDoesNotKeepAConfirmedBreakerOpen(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 20)
	w.cycle(t)
	w.releaseAll(0, 6)
	w.cycle(t)
	w.exec(t, `UPDATE nodes SET held_by = 'decommission x', schedulable = false WHERE id = $1`, w.nodes[0])
	if err := w.service.DecideBreaker(w.ctx,
		reconciliation.BreakerDecision{Site: w.at, Confirm: true, Reason: "the rack is sold"}); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		w.cycle(t)
	}
	if n := w.quarantined(t); n != 5 {
		t.Errorf("%d nodes are quarantined", n)
	}
	w.time = w.time.Add(3 * time.Hour)
	w.releaseAll(10, 11)
	if w.cycle(t); w.status(t, 10) != node.Quarantined {
		t.Errorf("three hours later a released node is %s", w.status(t, 10))
	}
}

func TestTwoAttemptsAtOneRunDoNotRunAtOnce(t *testing.T) {
	w := newWorld(t, 1)
	in := reconciliation.Input{Site: w.at, Run: newRun()}
	inside := false
	w.regions = &odd{plainMAAS: w.maas, read: func(ctx context.Context, ids []string) ([]reconciliation.Machine, error) {
		inside = true
		if _, err := w.service.Reconcile(w.ctx, in); err == nil {
			t.Error("a second attempt was let in")
		}
		return w.maas.Read(ctx, ids)
	}}
	w.restart()
	w.time = w.time.Add(time.Hour)
	if _, err := w.service.Reconcile(w.ctx, in); err != nil || !inside {
		t.Fatalf("%v, inside %t", err, inside)
	}
}

func TestLostEventsMakeTheSweepFaster(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 100)
	for range 12 {
		w.cycle(t)
	}
	usual := w.cycle(t).Report.Swept
	w.maas.events = w.maas.events[:0] // MAAS was restored: its newest event is older than what was read
	w.maas.events = append(w.maas.events, "elsewhere")
	w.exec(t, `UPDATE reconciliation_sites SET event_cursor = 5000`)
	if got := w.cycle(t).Report.Swept; got != 2*usual {
		t.Errorf("%d machines were swept after events were lost, %d before", got, usual)
	}
}

// Whoever reaches Temporal can name a run of one site and the lock of another.
func TestAttackARunUnderTheLockOfAnotherSite(t *testing.T) {
	db, owner := postgrestest.NewWithOwner(t)
	one, two := newWorldIn(t, db, owner, "one", 1), newWorldIn(t, db, owner, "two", 1)
	run := one.look(t)
	in := reconciliation.Input{Site: two.at, Run: run.ID}
	if _, err := one.service.Reconcile(one.ctx, in); fault.CodeOf(err) != "run_of_another_site" {
		t.Errorf("first look: %v", err)
	}
	if err := one.service.ReconcileAgain(one.ctx, in); fault.CodeOf(err) != "run_of_another_site" {
		t.Errorf("second look: %v", err)
	}
}
