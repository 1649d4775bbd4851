package reconciliation_test

import (
	"strings"
	"testing"
	"time"

	"gpuaas/controlplane/internal/work/reconciliation"
)

// A machine that was released behind our back stops being schedulable, breaker
// open or not, and its node comes back by itself once MAAS shows it installed. The
// quarantine, which weighs more, waits for an operator, and the finding says so.
func TestAReleasedMachineIsNotScheduledWhileTheBreakerIsOpen(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 20)
	w.cycle(t)
	w.releaseAll(0, 6)
	w.cycle(t)
	if n := w.quarantined(t); n != 0 {
		t.Fatalf("%d nodes are quarantined", n)
	}
	const aside = `SELECT count(*) FROM nodes WHERE NOT schedulable AND hold_reason = 'MAAS has released its machine'`
	if n := w.count(t, aside); n != 6 {
		t.Errorf("%d nodes are out of scheduling, want 6", n)
	}
	if f := w.open(t, 0)[reconciliation.TypeReleased]; f.Action != reconciliation.Quarantine ||
		!strings.HasPrefix(f.Withheld, "the circuit breaker of the site is open: ") {
		t.Errorf("it is withheld because %q", f.Withheld)
	}
	for n := range 6 {
		w.maas.machines[machineOf(n)] = w.healthy(n)
	}
	w.cycle(t)
	w.cycle(t)
	if n := w.count(t, `SELECT count(*) FROM nodes WHERE schedulable AND hold_reason = ''`); n != 20 {
		t.Errorf("%d of 20 nodes are schedulable after MAAS shows all as installed", n)
	}
}

// What harms nobody goes on while the breaker is open: a stale hardware sync gets
// its token again.
func TestAnOpenBreakerWithholdsNothingHarmless(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 20)
	w.cycle(t)
	w.releaseAll(0, 6)
	for range 3 {
		w.maas.machines[machineOf(10)].LastSync = new(w.time.Add(-3 * time.Hour))
		w.cycle(t)
	}
	if w.critical(t) != 1 {
		t.Fatal("the breaker is not open")
	}
	f, present := w.open(t, 10)[reconciliation.TypeHWSyncStale]
	if !present || f.Status != reconciliation.Acted || f.Withheld != "" {
		t.Errorf("the reseed: %+v", f)
	}
}
