package budget_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/price"
	"gpuaas/controlplane/internal/money/account"
	"gpuaas/controlplane/internal/money/reserved"
)

// reserve keeps nodes for the project, or for all of the tenant, for 8.00 an hour each that
// is not used.
func (w *world) reserve(
	tb testing.TB, charges *reserved.Service, project id.Project, nodes int32, lasts time.Duration,
) error {
	tb.Helper()
	of := id.New[id.Reservation]()
	return w.db.InTx(tb.Context(), func(ctx context.Context, tx pgx.Tx) error {
		terms, err := w.accounts.OfferReserved(ctx, tx, account.Rented{Org: w.org, Project: project, SKU: h200, GPUs: 8})
		if err == nil {
			err = w.budgets.Admit(ctx, tx, terms, nodes)
		}
		if err == nil {
			_, err = tx.Exec(ctx, `INSERT INTO reservations (id, org_id, project_id, sku_id, nodes, starts_at, ends_at, created_by)
				VALUES ($1, $2, $3, $4, $5, $6, $7, '')`, of, w.org, project, h200, nodes, w.time(), w.time().Add(lasts))
		}
		if err == nil {
			err = charges.Freeze(ctx, tx, reserved.Reservation{
				ID: of, Nodes: nodes, StartsAt: w.time(), EndsAt: w.time().Add(lasts),
			}, terms)
		}
		return err
	})
}

// What is reserved for a project and not used is in its budget, before it is charged as
// after; what is reserved for all of the tenant is in none.
func TestReservationsOfAProjectAreInItsBudget(t *testing.T) {
	w := newWorld(t)
	if _, err := price.New(w.db, 0).Set(t.Context(), price.Offer{
		SKU: h200, Meter: price.Reserved, Currency: "USD", Minor: 100,
	}); err != nil {
		t.Fatal(err)
	}
	var kept id.Reservation
	charges := reserved.New(reserved.Config{
		DB: w.db, Every: time.Hour, Clock: w.time,
		Kept: func(ctx context.Context, _ string) (map[id.Reservation]int64, error) {
			err := w.db.QueryRow(ctx, `SELECT reservation_id FROM reservation_terms WHERE project_id IS NOT NULL`).Scan(&kept)
			return map[id.Reservation]int64{kept: 2}, err
		},
	})
	w.set(t, 100_00, true)
	if err := w.reserve(t, charges, w.project, 20, time.Hour); fault.CodeOf(err) != "budget_exceeded" {
		t.Fatalf("more than the budget is reserved: %v", err)
	}
	if err := w.reserve(t, charges, id.Project{}, 20, 10*time.Hour); err != nil {
		t.Fatal(err)
	}
	if err := w.reserve(t, charges, w.project, 2, 5*time.Hour); err != nil {
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
