package statement_test

import (
	"math/big"
	"testing"
	"time"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/fleet/price"
	"gpuaas/controlplane/internal/money/account"
	"gpuaas/controlplane/internal/money/balance"
	"gpuaas/controlplane/internal/money/budget"
	"gpuaas/controlplane/internal/money/statement"
)

// Who follows the list has a line for each price of it, with its own unit price and id in
// an export, and statement, usage, balance, budget and comparison agree on the sum.
func TestWhoFollowsTheListHasALineForEachPrice(t *testing.T) {
	w := newWorld(t)
	begin := time.Now().UTC().AddDate(0, 2, 0)
	begin = time.Date(begin.Year(), begin.Month(), 3, 0, 0, 0, 0, time.UTC) // prices begin in no past
	w.now = begin
	w.exec(t, `UPDATE billing_periods SET open_since = $2 WHERE org_id = $1`, w.org, begin.AddDate(0, 0, -2))
	if _, err := w.accounts.Set(t.Context(), w.org, account.Wish{
		Currency: "USD", Pricing: new(account.FollowsList),
	}); err != nil {
		t.Fatal(err)
	}
	prices := []id.Price{w.priceOf(t)}
	for i, after := range []time.Duration{90 * time.Minute, 2*time.Hour + 500*time.Millisecond} {
		set, err := price.New(w.db, 0).Set(t.Context(), price.Offer{
			SKU: h200, Currency: "USD", Minor: 400 + 100*int64(i), From: new(begin.Add(after)),
		})
		if err != nil {
			t.Fatal(err)
		}
		prices = append(prices, set.ID)
	}
	a := w.rent(t, w.tenant, 8, `{}`, begin, time.Time{})
	// The third price counts from the first whole second of its time on.
	const hours3 = (5400*350 + 1801*400 + 3599*500) * 8 * 9 / 36000
	w.now = begin.Add(3 * time.Hour)
	stands := w.agreeOn(t, hours3)
	if stands.Burn != 500*8*9/10 {
		t.Errorf("an hour costs %d", stands.Burn)
	}
	w.budgeted(t, hours3)
	w.meter(t)
	w.agreeOn(t, hours3)
	w.budgeted(t, hours3)
	w.exec(t, `UPDATE allocations SET status = 'releasing', release_requested_at = $2 WHERE id = $1`, a, w.now)
	w.meter(t)
	w.agreeOn(t, hours3)

	d, err := w.statements.Open(t.Context(), w.org)
	if err != nil {
		t.Fatal(err)
	}
	if d.UsageMinor != hours3 || len(d.Lines) != 3 {
		t.Fatalf("%d in %d lines: %+v", d.UsageMinor, len(d.Lines), d.Lines)
	}
	seconds := []int64{5400, 1801, 3599}
	for i, l := range d.Lines {
		minor := []int64{350, 400, 500}[i]
		if l.PriceID == nil || *l.PriceID != prices[i] || l.PriceMinor != minor || l.Seconds != seconds[i] {
			t.Errorf("line %d: %+v", i, l)
		}
	}
	export, err := d.Focus()
	if err != nil {
		t.Fatal(err)
	}
	rows, billed := holdToFocus(t, export)
	if len(rows) != 3 || billed.Cmp(big.NewRat(hours3, 100)) != 0 {
		t.Errorf("%d rows, %s billed", len(rows), billed.FloatString(2))
	}
	for i, r := range rows {
		if r["SkuPriceId"] != prices[i].String() || r["ListUnitPrice"] != []string{"3.50", "4.00", "5.00"}[i] {
			t.Errorf("row %d: %v", i, r)
		}
	}
}

func (w *world) priceOf(tb testing.TB) (of id.Price) {
	tb.Helper()
	if err := w.owner.QueryRow(tb.Context(), `SELECT id FROM sku_prices WHERE sku_id = $1 AND currency = 'USD'`, h200).
		Scan(&of); err != nil {
		tb.Fatal(err)
	}
	return of
}

// agreeOn holds that everything that says what the tenant has used says the same.
func (w *world) agreeOn(tb testing.TB, want int64) balance.Standing {
	tb.Helper()
	used := w.usage(tb, statement.Question{Org: w.org, From: w.now.AddDate(0, 0, -3), To: w.now})
	if len(used) != 1 || used[0].Cost != want {
		tb.Errorf("usage: %+v, want %d", used, want)
	}
	balances := balance.New(balance.Config{DB: w.db, First: time.Hour, Clock: func() time.Time { return w.now }})
	stands, err := balances.Of(tb.Context(), w.org)
	if err != nil || stands.Accrued-stands.Posted != want {
		tb.Errorf("balance: %+v, %v, want %d", stands, err, want)
	}
	c, err := w.statements.Check(tb.Context(), w.org, func() {})
	if err != nil || c.Disagreements != 0 || c.Allocations != 1 {
		tb.Errorf("comparison: %+v, %v", c, err)
	}
	return stands
}

// budgeted holds that a budget says the same.
func (w *world) budgeted(tb testing.TB, want int64) {
	tb.Helper()
	budgets := budget.New(budget.Config{DB: w.db, First: time.Hour, Clock: func() time.Time { return w.now }})
	if b, err := budgets.Set(tb.Context(), w.project, budget.Wish{
		Minor: 1_000_000, Currency: "USD", Period: budget.Month,
	}); err != nil || b.Spent != want {
		tb.Errorf("budget: %+v, %v, want %d", b, err, want)
	}
}
