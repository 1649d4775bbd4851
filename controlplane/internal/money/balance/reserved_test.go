package balance_test

import (
	"testing"
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/money/balance"
	"gpuaas/controlplane/internal/money/reserved"
	"gpuaas/controlplane/internal/money/reserved/reservedtest"
)

// unused charges reservations for which nothing is lacking.
func (w *world) unused(tb testing.TB) *reserved.Service {
	tb.Helper()
	reservedtest.Price(tb, w.db, 100)
	return reserved.New(reserved.Config{DB: w.db, Every: time.Hour, Clock: w.time, Kept: reservedtest.Enough(w.db)})
}

// reserve keeps nodes for all of the tenant, for 8.00 an hour each that is not used.
func (w *world) reserve(tb testing.TB, charges *reserved.Service, nodes int32, from time.Time) (id.Reservation, error) {
	tb.Helper()
	return reservedtest.Reserve(tb.Context(), w.db, w.accounts, charges, reservedtest.Plan{
		Org: w.org, Nodes: nodes, From: from, To: from.Add(1000 * time.Hour), Admit: w.balances.Admit,
	})
}

func (w *world) evaluate(tb testing.TB) balance.Standing {
	tb.Helper()
	if err := w.balances.Evaluate(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	now, err := w.balances.Of(tb.Context(), w.org)
	if err != nil {
		tb.Fatal(err)
	}
	return now
}

// A tenant that only has something reserved comes to its end as others do: what is reserved
// and not used counts at once, before anybody charges it, and ends once.
func TestAReservationAloneUsesABalanceUp(t *testing.T) {
	w := newWorld(t)
	charges := w.unused(t)
	w.limit(t, nil)
	w.credit(t, 100_00)
	if _, err := w.reserve(t, charges, 100, start); fault.CodeOf(err) != "insufficient_balance" {
		t.Fatalf("more than can be paid for an hour is reserved: %v", err)
	}
	if _, err := w.reserve(t, charges, 2, start.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if now := w.evaluate(t); now.Burn != 0 || now.Status != balance.Healthy {
		t.Errorf("before it begins an hour costs %d, and the tenant is %s", now.Burn, now.Status)
	}
	w.now = start.Add(2 * time.Hour)
	now := w.evaluate(t)
	lasts, _ := now.Runway()
	if now.Accrued != 16_00 || now.Burn != 16_00 || now.Reserved != 1 || now.Live != 0 || lasts != 84*time.Hour/16 {
		t.Errorf("used are %d, an hour costs %d, %d reservations cost something, the rest lasts %s", now.Accrued, now.Burn,
			now.Reserved, lasts)
	}
	if err := charges.Tend(t.Context()); err != nil {
		t.Fatal(err)
	}
	if later := w.evaluate(t); later.Posted-later.Accrued != now.Posted-now.Accrued || later.Accrued != 0 {
		t.Errorf("a charge changes what is left: %d and %d, before %d and %d", later.Posted, later.Accrued, now.Posted, now.Accrued)
	}
	w.now = start.Add(8 * time.Hour)
	now = w.evaluate(t)
	w.evaluate(t)
	if n := w.number(t, `SELECT count(*) FROM balance_reservation_ends`); n != 1 || now.Reserved != 0 || now.Burn != 0 {
		t.Errorf("%d reservations were ended, an hour costs %d then", n, now.Burn)
	}
	w.now = start.Add(20 * time.Hour)
	if err := charges.Tend(t.Context()); err != nil {
		t.Fatal(err)
	}
	if now := w.evaluate(t); now.Posted != 100_00-7*16_00 || now.Accrued != 0 {
		t.Errorf("in the end %d are booked and %d are not", now.Posted, now.Accrued)
	}
}

// At the end reservations go first: else each release would make a node that is reserved
// and not used. What is left then may last for what is used.
func TestReservationsEndBeforeAllocations(t *testing.T) {
	w := newWorld(t)
	charges := w.unused(t)
	w.credit(t, 1000_00)
	a := w.rent(t)
	w.limit(t, nil)
	if _, err := w.reserve(t, charges, 3, start); err != nil {
		t.Fatal(err)
	}
	w.now = start.Add(time.Hour) // 28.00 an hour are held, and 16.00 reserved: one of three nodes is used
	if now := w.evaluate(t); now.Burn != 44_00 || now.Live != 1 || now.Reserved != 1 {
		t.Fatalf("an hour costs %d, of %d allocations and %d reservations", now.Burn, now.Live, now.Reserved)
	}
	w.now = start.Add(23 * time.Hour)
	order := []string{}
	w.onEnd = func(id.Allocation) error {
		if w.number(t, `SELECT count(*) FROM balance_reservation_ends`) == 1 {
			order = append(order, "after the reservation")
		}
		return nil
	}
	w.evaluate(t)
	if len(w.released) != 1 || w.released[0] != a || len(order) != 1 {
		t.Errorf("released were %v, %v", w.released, order)
	}
}
