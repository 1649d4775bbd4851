package balance_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"gpuaas/controlplane/internal/money/account"
)

// What a look at one tenant and at all of them says by a list is, allocation by allocation,
// what the one cost of the database says, at any moment and with prices that begin at any.
func TestALookByAListIsTheCostOfIt(t *testing.T) {
	w := newWorld(t)
	w.limit(t, nil)
	w.exec(t, `ALTER TABLE sku_prices DISABLE TRIGGER sku_prices_begin_later`) // nobody sets prices in the past
	w.exec(t, `INSERT INTO sku_prices (id, sku_id, currency, price_minor, valid_from)
		SELECT gen_random_uuid(), $1, 'USD', (random() * 1000)::bigint, $2::timestamptz + random() * interval '20 days'
		FROM generate_series(1, 30) n`, h200, start.AddDate(0, 0, -10))
	for _, pricing := range []account.Pricing{account.FollowsList, account.Fixed} {
		if _, err := w.accounts.Set(t.Context(), w.org, account.Wish{
			Currency: "USD", Paid: new(1 + rand.Int32N(10_000)), Pricing: &pricing,
		}); err != nil {
			t.Fatal(err)
		}
		w.now = start
		for range 6 {
			w.credit(t, 100_000_000)
			w.rent(t)
		}
	}
	w.exec(t, `UPDATE allocations SET active_at = $1::timestamptz + random() * interval '5 days'`, start.AddDate(0, 0, -5))
	w.exec(t, `UPDATE allocations a SET expires_at = active_at + random() * interval '9 days' WHERE random() < 0.3`)
	w.exec(t, `UPDATE usage_meters m SET charged_until = a.active_at + random() * interval '2 days' FROM allocations a
		WHERE a.id = m.allocation_id AND random() < 0.5`)
	for range 40 {
		w.now = start.Add(time.Duration(rand.Int64N(int64(10 * 24 * time.Hour)))).Truncate(time.Microsecond)
		accrued := w.number(t, `SELECT sum(allocation_cost(t, a.active_at, least($1, a.expires_at))
			- allocation_cost(t, a.active_at, coalesce(m.charged_until, a.active_at)))
			FROM usage_meters m JOIN allocations a ON a.id = m.allocation_id JOIN allocation_terms t ON t.allocation_id = a.id`, w.now)
		burn := w.number(t, `SELECT ceil(sum(allocation_rate(t, $1)) / 10000) FROM allocations a JOIN allocation_terms t
			ON t.allocation_id = a.id WHERE coalesce(a.expires_at > $1, true)`, w.now)
		one, err := w.balances.Of(t.Context(), w.org)
		if err != nil || one.Accrued != accrued || one.Burn != burn {
			t.Fatalf("at %s a look at the tenant says %d and %d an hour, the cost is %d and %d: %v", w.now, one.Accrued, one.Burn,
				accrued, burn, err)
		}
		all, err := w.balances.Standings(t.Context())
		if err != nil || len(all) != 1 || all[0].Accrued != accrued || all[0].Burn != burn {
			t.Fatalf("at %s a look at all says %+v, the cost is %d and %d an hour: %v", w.now, all, accrued, burn, err)
		}
	}
}
