package balance_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/money/account"
	"gpuaas/controlplane/internal/money/balance"
)

// BenchmarkEvaluate looks at the balances of a thousand tenants with a hundred live
// allocations each. None of them changes its state, which is the usual case.
func BenchmarkEvaluate(b *testing.B) {
	w := newWorld(b)
	w.fill(b, 1_000, 100)
	for b.Loop() {
		w.now = w.now.Add(time.Minute)
		if err := w.balances.Evaluate(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(w.number(b, `SELECT count(*) FROM usage_meters WHERE closed_at IS NULL`)), "allocations")
}

// BenchmarkEvaluateByTheList is BenchmarkEvaluate with terms that follow a list which has
// had a price for each week of a year.
func BenchmarkEvaluateByTheList(b *testing.B) {
	w := newWorld(b)
	w.exec(b, `ALTER TABLE sku_prices DISABLE TRIGGER sku_prices_begin_later`) // nobody sets prices in the past
	w.exec(b, `INSERT INTO sku_prices (id, sku_id, currency, price_minor, valid_from)
		SELECT gen_random_uuid(), $1, 'USD', 300 + n, $2::timestamptz + interval '20 minutes' - n * interval '1 week'
		FROM generate_series(0, 52) n`, h200, start)
	w.fillBy(b, account.FollowsList, 1_000, 100)
	for b.Loop() {
		w.now = w.now.Add(time.Minute)
		if err := w.balances.Evaluate(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(w.number(b, `SELECT count(*) FROM usage_meters m JOIN allocation_terms t USING (allocation_id)
		WHERE m.closed_at IS NULL AND t.pricing = 'follows_list'`)), "allocations")
}

// BenchmarkBalance reads the balance of a tenant with a hundred live allocations among a
// hundred thousand. Half of the reads take no longer than its median; the mean also has what
// others on the machine take.
func BenchmarkBalance(b *testing.B) {
	w := newWorld(b)
	w.fill(b, 1_000, 100)
	var took []time.Duration
	for b.Loop() {
		began := time.Now()
		if _, err := w.balances.Of(b.Context(), w.org); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms-median")
}

// fill adds tenants with allocations that were charged half an hour ago. The tenant of
// the world is one of them.
func (w *world) fill(tb testing.TB, tenants, each int) {
	tb.Helper()
	w.fillBy(tb, account.Fixed, tenants, each)
}

func (w *world) fillBy(tb testing.TB, pricing account.Pricing, tenants, each int) {
	tb.Helper()
	w.limit(tb, func(s *balance.Settings) { s.LowFor, s.ReleaseFor = 0, 0 })
	if err := w.owner.InTx(tb.Context(), func(ctx context.Context, tx pgx.Tx) error {
		run := func(query string, args ...any) {
			tb.Helper()
			if _, err := tx.Exec(ctx, query, args...); err != nil {
				tb.Fatal(err)
			}
		}
		run(`SET LOCAL statement_timeout = 0`)
		run(`INSERT INTO organizations (id, slug, name) SELECT gen_random_uuid(), 't' || n, 't' FROM generate_series(2, $1) n`,
			tenants)
		run(`INSERT INTO billing_accounts (org_id, currency, updated_by) SELECT id, 'USD', '' FROM organizations WHERE slug LIKE 't%'`)
		run(`INSERT INTO projects (id, org_id, slug, name) SELECT gen_random_uuid(), id, 'p', 'p' FROM organizations WHERE slug LIKE 't%'`)
		run(`INSERT INTO balances (org_id, payment, credit_line_minor, low_minor, low_seconds, release_seconds, rearm_percent,
			grace_seconds, updated_by) SELECT org_id, 'prepaid', 100000000000, 0, 0, 0, 125, 0, '' FROM billing_accounts
			ON CONFLICT (org_id) DO UPDATE SET credit_line_minor = excluded.credit_line_minor, status = 'healthy'`)
		run(`INSERT INTO allocations (id, org_id, project_id, capacity_shape, sku_id, sku_terms, price_minor, price_currency, gpus,
			region_code, node_id, hostname, access, event_id, requested_by, status, active_at)
			SELECT gen_random_uuid(), p.org_id, p.id, 'baremetal', $1, '{}', 350, 'USD', 8, 'eu', $2, 'n', 'user', gen_random_uuid(), '',
				'active', $3::timestamptz + n * interval '1 second' FROM projects p, generate_series(1, $4) n`, h200, w.node, start, each)
		run(`INSERT INTO allocation_terms (allocation_id, org_id, project_id, sku_id, basis, currency, price_id, price_minor, paid_share, units,
			pricing) SELECT a.id, a.org_id, a.project_id, a.sku_id, 'priced', 'USD', (SELECT id FROM sku_prices WHERE sku_id = $1 LIMIT 1),
				350, 9000, 8, $2 FROM allocations a`, h200, pricing)
		run(`INSERT INTO balance_holds (allocation_id, org_id, amount_minor) SELECT id, org_id, 2520 FROM allocations`)
		run(`INSERT INTO usage_meters (allocation_id, org_id, charged_until) SELECT id, org_id, active_at + interval '1 hour' FROM allocations`)

		return nil
	}); err != nil {
		tb.Fatal(err)
	}
	w.exec(tb, `ANALYZE usage_meters, allocations, allocation_terms, balance_holds`)
	w.now = start.Add(90 * time.Minute)
}
