package reconciliation_test

import (
	"fmt"
	"testing"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/reconciliation"
)

// critical counts the events that ask an operator to decide.
func (w *world) critical(tb testing.TB) int {
	tb.Helper()
	return w.count(tb, `SELECT count(*) FROM outbox_events WHERE event_type = 'reconciliation.breaker_opened'`)
}

func (w *world) releaseAll(from, to int) {
	for n := from; n < to; n++ {
		w.maas.set(machineOf(n), "Ready", reconciliation.Free)
	}
}

func TestAListingThatShowsASiteAsEmptyQuarantinesNothing(t *testing.T) {
	t.Parallel()
	for name, empty := range map[string]func(*world){
		"all machines are shown as released": func(w *world) { w.releaseAll(0, 20) },
		"no machine exists any more":         func(w *world) { clear(w.maas.machines) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 20)
			w.cycle(t)
			empty(w)
			outcome := reconciliation.Outcome("")
			for range 14 {
				if o := w.cycle(t).Outcome; o == reconciliation.Tripped {
					outcome = o
				}
			}
			if n := w.quarantined(t); n > 3 {
				t.Errorf("%d nodes were quarantined", n)
			}
			if outcome != reconciliation.Tripped || w.critical(t) != 1 {
				t.Errorf("outcome %s, %d critical events", outcome, w.critical(t))
			}
			for n := range 20 {
				w.maas.machines[machineOf(n)] = w.healthy(n)
			}
			for range 14 {
				w.cycle(t)
			}
			if n := w.count(t, `SELECT count(*) FROM reconciliation_findings WHERE status <> 'closed'`); n != 0 {
				t.Errorf("%d findings are left after MAAS is right again", n)
			}
			if n := w.count(t, `SELECT count(*) FROM reconciliation_sites WHERE tripped_at IS NOT NULL`); n != 0 {
				t.Error("the breaker did not close by itself")
			}
		})
	}
}

func TestTheBreakerCountsOverTheTimeOfASweep(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 20)
	w.cycle(t)
	for n := range 10 { // one in each cycle
		w.releaseAll(n, n+1)
		w.cycle(t)
	}
	if n := w.quarantined(t); n != 3 {
		t.Errorf("%d nodes were quarantined within an hour", n)
	}
	if w.critical(t) != 1 {
		t.Errorf("%d critical events", w.critical(t))
	}
}

func TestAConfirmedBreakerQuarantinesTheListedNodesAndNoOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 20)
	w.cycle(t)
	w.releaseAll(0, 6)
	w.cycle(t)
	if err := w.service.DecideBreaker(w.ctx,
		reconciliation.BreakerDecision{Site: w.at, Confirm: true, Reason: " "}); fault.CodeOf(err) != "reason_missing" {
		t.Errorf("without a reason: %v", err)
	}
	if err := w.service.DecideBreaker(w.ctx,
		reconciliation.BreakerDecision{Site: w.at, Confirm: true, Reason: "the rack is sold"}); err != nil {
		t.Fatal(err)
	}
	w.releaseAll(6, 8) // after the decision
	w.cycle(t)
	if n := w.quarantined(t); n != 6 {
		t.Errorf("%d nodes are quarantined, not the 6 that were confirmed", n)
	}
	w.cycle(t)
	w.cycle(t)
	if n := w.quarantined(t); n != 6 || w.critical(t) != 2 {
		t.Errorf("%d nodes, %d alerts: what came later needs a decision of its own", n, w.critical(t))
	}
}

func TestADismissedBreakerTouchesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 20)
	w.cycle(t)
	w.releaseAll(0, 6)
	w.cycle(t)
	if err := w.service.DecideBreaker(w.ctx,
		reconciliation.BreakerDecision{Site: w.at, Reason: "MAAS was restored from a backup"}); err != nil {
		t.Fatal(err)
	}
	if err := w.service.DecideBreaker(w.ctx,
		reconciliation.BreakerDecision{Site: w.at, Reason: "again"}); fault.CodeOf(err) != "breaker_not_open" {
		t.Errorf("a second decision: %v", err)
	}
	w.cycle(t)
	w.cycle(t)
	if n := w.quarantined(t); n != 0 || w.critical(t) != 1 {
		t.Errorf("%d nodes are quarantined, and there were %d alerts", n, w.critical(t))
	}
	if _, present := w.open(t, 0)[reconciliation.TypeReleased]; !present {
		t.Error("the finding is gone although its node did not heal")
	}
	w.maas.machines[machineOf(0)] = w.healthy(0)
	if w.cycle(t); len(w.open(t, 0)) != 0 {
		t.Errorf("it healed, and left %v", w.open(t, 0))
	}
}

func TestAlwaysThreeOrFivePercent(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ nodes, released, quarantined int }{{4, 3, 3}, {4, 4, 0}, {120, 6, 6}, {120, 7, 0}} {
		t.Run(fmt.Sprintf("%d of %d", c.released, c.nodes), func(t *testing.T) {
			w := newWorld(t, c.nodes)
			w.cycle(t)
			w.releaseAll(0, c.released)
			w.cycle(t)
			if n := w.quarantined(t); n != c.quarantined {
				t.Errorf("%d of %d released nodes are quarantined, not %d", n, c.released, c.quarantined)
			}
		})
	}
}

func TestAQuarantineTouchesNothingElse(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.cycle(t)
	before, err := node.Get(w.ctx, w.db, w.nodes[0])
	if err != nil {
		t.Fatal(err)
	}
	w.releaseAll(0, 1)
	w.cycle(t)
	after, err := node.Get(w.ctx, w.db, w.nodes[0])
	if err != nil {
		t.Fatal(err)
	}
	if after.Status != node.Quarantined || after.Schedulable {
		t.Errorf("it is %s, schedulable %t", after.Status, after.Schedulable)
	}
	if after.Host != before.Host || after.HoldReason != before.HoldReason || after.HeldBy != before.HeldBy ||
		after.Generation != before.Generation {
		t.Errorf("before %+v, after %+v", before, after)
	}
	if n := w.count(t, `SELECT count(*) FROM node_tasks`); n != 0 {
		t.Errorf("%d tasks were made", n)
	}
}

func TestOnlyOneRunAtATimeHasASite(t *testing.T) {
	w := newWorld(t, 1)
	w.exec(t,
		`INSERT INTO reconciliation_sites (site_id, running_id, running_until) VALUES ($1, gen_random_uuid(), now() + interval '1 minute')`, w.at)
	_, err := w.service.Reconcile(w.ctx, reconciliation.Input{Site: w.at, Run: newRun()})
	if fault.CodeOf(err) != "site_busy" {
		t.Fatalf("a second run: %v", err)
	}
	w.exec(t, `UPDATE reconciliation_sites SET running_until = now() - interval '1 second'`) // whoever had it died
	if w.cycle(t); w.count(t, `SELECT count(*) FROM reconciliation_sites WHERE running_id IS NOT NULL`) != 0 {
		t.Error("it was not given back")
	}
}

func TestASiteThatSaysNothingForLongIsAFinding(t *testing.T) {
	w := newWorld(t, 1)
	w.cycle(t)
	w.maas.away = true
	for range 5 {
		if o := w.cycle(t).Outcome; o != reconciliation.Unheard {
			t.Fatalf("outcome is %s", o)
		}
	}
	const present = `SELECT count(*) FROM reconciliation_findings WHERE type = 'no_information' AND status <> 'closed'`
	if w.count(t, present) != 1 {
		t.Errorf("%d findings", w.count(t, present))
	}
	w.maas.away = false
	if w.cycle(t); w.count(t, present) != 0 {
		t.Error("it did not close")
	}
}

func TestADisabledSiteIsReconciledUntilItsLastNodeIsGone(t *testing.T) {
	w := newWorld(t, 1)
	w.exec(t, `UPDATE maas_sites SET status = 'disabled' WHERE id = $1`, w.at)
	if o := w.cycle(t).Outcome; o != reconciliation.Informed {
		t.Errorf("outcome with a node is %s", o)
	}
	if _, err := w.service.RequestRun(w.ctx, reconciliation.RunRequest{Site: w.at}); err != nil {
		t.Errorf("a run that is asked for: %v", err)
	}
	w.exec(t, `UPDATE nodes SET status = 'deleted', schedulable = false`)
	if o := w.cycle(t).Outcome; o != reconciliation.Skipped {
		t.Errorf("outcome is %s", o)
	}
	if _, err := w.service.RequestRun(w.ctx, reconciliation.RunRequest{Site: w.at}); fault.CodeOf(err) != "site_disabled" {
		t.Errorf("a run that is asked for: %v", err)
	}
}

func TestHugeExceptionListingsAreAskedForLessOften(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	for n := 100; n < 1700; n++ {
		m := w.healthy(0)
		m.SystemID, m.Hostname, m.Status, m.State = machineOf(n), fmt.Sprintf("other-%d", n), "Ready", reconciliation.Free
		w.maas.machines[m.SystemID] = m
	}
	for range 12 {
		w.cycle(t)
	}
	if w.maas.askedExceptions > 4 {
		t.Errorf("1600 machines were listed %d times in an hour", w.maas.askedExceptions)
	}
	if n := w.count(t, `SELECT count(*) FROM reconciliation_findings WHERE type = 'unmanaged_machine'`); n != 200 {
		t.Errorf("%d machines that are no nodes are remembered", n)
	}
}

func TestOldRunsAreForgotten(t *testing.T) {
	w := newWorld(t, 1)
	w.cycle(t)
	w.exec(t, `UPDATE reconciliation_runs SET requested_at = now() - interval '8 days'`)
	if err := w.service.Tend(w.ctx); err != nil {
		t.Fatal(err)
	}
	if n := w.count(t, `SELECT count(*) FROM reconciliation_runs`); n != 0 {
		t.Errorf("%d runs are left", n)
	}
}
