package metering_test

import (
	"testing"
	"time"

	"gpuaas/controlplane/internal/engine/postgres"
)

// A moment without end is let into no row that money is computed from: one would stop the
// charges and the balances of everybody.
func TestNoMomentOfMoneyIsInfinite(t *testing.T) {
	w := newWorld(t)
	a := w.rent(t, 8)
	w.activate(t, a, start)
	w.now = start.Add(time.Hour)
	w.tend(t)
	const window = `INSERT INTO usage_windows (allocation_id, meter, starts_at, ends_at, follows, amount_minor)
		SELECT allocation_id, meter, charged_until, $2, charged_until, 0 FROM usage_meters WHERE allocation_id = $1`
	const repair = `INSERT INTO allocation_repairs (id, allocation_id, node_id, reason, began_at, began_by)
		SELECT gen_random_uuid(), id, node_id, 'a fan', $2, '' FROM allocations WHERE id = $1`
	const entry = `INSERT INTO ledger_entries (id, org_id, currency, kind, reason, made_by, allocation_id, meter, window_start, window_end)
		SELECT gen_random_uuid(), org_id, 'USD', 'usage', 'r', '', id, 'held', active_at, $2 FROM allocations WHERE id = $1`
	for _, c := range []struct{ query, constraint string }{
		{`UPDATE allocations SET active_at = $2 WHERE id = $1`, "allocations_finite"},
		{`UPDATE allocations SET expires_at = $2 WHERE id = $1`, "allocations_finite"},
		{`UPDATE allocations SET release_requested_at = $2 WHERE id = $1`, "allocations_finite"},
		{`UPDATE usage_meters SET charged_until = $2 WHERE allocation_id = $1`, "usage_meters_finite"},
		{window, "usage_windows_finite"},
		{repair, "allocation_repairs_finite"},
		{entry, "ledger_entries_finite"},
	} {
		if _, err := w.owner.Exec(t.Context(), c.query, a, "infinity"); !postgres.Violates(err, c.constraint) {
			t.Errorf("%s: %v", c.query, err)
		}
	}
	w.exec(t, `UPDATE allocations SET expires_at = $2 WHERE id = $1`, a, start.AddDate(2000, 0, 0))
	w.now = start.Add(2 * time.Hour)
	w.tend(t)
	if got := w.balance(t); got != -2*2520 {
		t.Errorf("with an end that is far away the balance is %d", got)
	}
}
