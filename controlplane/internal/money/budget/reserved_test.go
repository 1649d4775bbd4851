package budget_test

import (
	"testing"
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/money/reserved"
	"gpuaas/controlplane/internal/money/reserved/reservedtest"
)

// reserve keeps nodes for the project, or for all of the tenant, for 8.00 an hour each that
// is not used.
func (w *world) reserve(
	tb testing.TB, charges *reserved.Service, project id.Project, nodes int32, lasts time.Duration,
) (id.Reservation, error) {
	tb.Helper()
	return reservedtest.Reserve(tb.Context(), w.db, w.accounts, charges, reservedtest.Plan{
		Org: w.org, Project: project, Nodes: nodes, From: w.time(), To: w.time().Add(lasts), Admit: w.budgets.Admit,
	})
}

// What is reserved for a project and not used is in its budget, before it is charged as
// after; what is reserved for all of the tenant is in none.
func TestReservationsOfAProjectAreInItsBudget(t *testing.T) {
	w := newWorld(t)
	reservedtest.Price(t, w.db, 100)
	charges := reserved.New(reserved.Config{DB: w.db, Every: time.Hour, Clock: w.time, Kept: reservedtest.Enough(w.db)})
	w.set(t, 100_00, true)
	if _, err := w.reserve(t, charges, w.project, 20, time.Hour); fault.CodeOf(err) != "budget_exceeded" {
		t.Fatalf("more than the budget is reserved: %v", err)
	}
	if _, err := w.reserve(t, charges, id.Project{}, 20, 10*time.Hour); err != nil {
		t.Fatal(err)
	}
	kept, err := w.reserve(t, charges, w.project, 2, 5*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	holds := func(when string, spent, forecast int64) {
		t.Helper()
		b, err := w.budgets.Of(t.Context(), w.project)
		if err != nil || b.Spent != spent || b.Forecast != forecast {
			t.Errorf("%s: spent are %d, forecast are %d, %v; want %d and %d", when, b.Spent, b.Forecast, err, spent, forecast)
		}
	}
	w.now = start.Add(3 * time.Hour)
	holds("before it is charged", 3*16_00, 5*16_00)
	if err := charges.Tend(t.Context()); err != nil {
		t.Fatal(err)
	}
	holds("after it is charged", 3*16_00, 5*16_00)
	w.now = start.Add(30 * time.Hour)
	holds("at its end", 5*16_00, 5*16_00)
	if err := charges.Tend(t.Context()); err != nil {
		t.Fatal(err)
	}
	holds("after its end", 5*16_00, 5*16_00)
	var entry id.LedgerEntry
	if err := w.owner.QueryRow(t.Context(), `SELECT id FROM ledger_entries WHERE reservation_id = $1 ORDER BY window_start LIMIT 1`,
		kept).Scan(&entry); err != nil {
		t.Fatal(err)
	}
	if _, err := w.ledger.Correct(t.Context(), w.org, entry, "we lacked nodes"); err != nil {
		t.Fatal(err)
	}
	holds("after a correction", 2*16_00, 2*16_00)
}
