package statement_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/money/statement"
)

// manyAllocations is a large tenant: each of its allocations was rented for a day of
// February and charged by the hour.
const manyAllocations = 10_000

// BenchmarkOpenMonth reads the draft of a month with 10,000 allocations and 240,000
// entries, and writes it as CSV.
func BenchmarkOpenMonth(b *testing.B) {
	w := newWorld(b)
	w.rentDays(b, manyAllocations)
	for b.Loop() {
		d, err := w.statements.Open(b.Context(), w.org)
		if err != nil || len(d.Lines) != manyAllocations {
			b.Fatalf("%d lines, %v", len(d.Lines), err)
		}
		if _, err := d.CSV(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(w.number(b, `SELECT (pg_total_relation_size('ledger_entries') + pg_total_relation_size('ledger_postings')
		+ pg_total_relation_size('usage_windows')) / $1`, manyAllocations)), "bytes/allocation-day")
	b.ReportMetric(float64(w.number(b, `SELECT count(*) FROM ledger_entries`)), "entries")
}

// BenchmarkCloseMonth closes that month, and then reads the statement. A month is closed
// once: run it with -benchtime 1x.
func BenchmarkCloseMonth(b *testing.B) {
	w := newWorld(b)
	w.rentDays(b, manyAllocations)
	w.now = month(3).Add(hour)
	var d statement.Document
	for i := 0; b.Loop() && i < 1; i++ {
		d = w.close(b, 2)
	}
	if len(d.Lines) != manyAllocations {
		b.Fatalf("%d lines", len(d.Lines))
	}
}

// BenchmarkStatement reads the statement of that month.
func BenchmarkStatement(b *testing.B) {
	w := newWorld(b)
	w.rentDays(b, manyAllocations)
	w.now = month(3).Add(hour)
	d := w.close(b, 2)
	for b.Loop() {
		got, err := w.statements.Get(b.Context(), w.org, d.StatementID)
		if err != nil || len(got.Lines) != manyAllocations {
			b.Fatalf("%d lines, %v", len(got.Lines), err)
		}
	}
}

// BenchmarkCheck compares what was booked for 10,000 allocations with rated usage.
func BenchmarkCheck(b *testing.B) {
	w := newWorld(b)
	w.rentDays(b, manyAllocations)
	for b.Loop() {
		if c, err := w.statements.Check(b.Context(), w.org, func() {}); err != nil || c.Disagreements != 0 ||
			c.Allocations != manyAllocations {
			b.Fatalf("%+v, %v", c, err)
		}
	}
}

// rentDays adds allocations of the tenant that were rented for a day each, with all that
// was booked for them. The triggers that check each row are off while they are added: what
// they hold is checked when the month is closed.
func (w *world) rentDays(tb testing.TB, n int) {
	tb.Helper()
	if err := w.owner.InTx(tb.Context(), func(ctx context.Context, tx pgx.Tx) error {
		run := func(query string, args ...any) {
			tb.Helper()
			if _, err := tx.Exec(ctx, query, args...); err != nil {
				tb.Fatal(err)
			}
		}
		run(`SET LOCAL statement_timeout = 0`)
		run(`INSERT INTO allocations (id, org_id, project_id, capacity_shape, sku_id, sku_terms, price_minor, price_currency, gpus,
			region_code, node_id, hostname, access, event_id, requested_by, status, active_at, release_requested_at)
			SELECT gen_random_uuid(), $1, $2, 'baremetal', $3, '{}', 350, 'USD', 8, 'eu', $4, 'n', 'user', gen_random_uuid(), '',
				'releasing', b.began, b.began + interval '1 day'
			FROM generate_series(1, $6) i, LATERAL (SELECT $5::timestamptz + i * interval '3 minutes' AS began) b`, w.org, w.project, h200,
			w.node, month(2), n)
		run(`INSERT INTO allocation_terms (allocation_id, org_id, project_id, sku_id, basis, currency, price_id, price_minor, paid_share, units)
			SELECT a.id, a.org_id, a.project_id, a.sku_id, 'priced', 'USD', (SELECT id FROM sku_prices WHERE sku_id = $1 LIMIT 1), 350, 9000, 8
			FROM allocations a`, h200)
		run(`INSERT INTO usage_meters (allocation_id, org_id, charged_until, closed_at)
			SELECT id, org_id, release_requested_at, release_requested_at FROM allocations`)
		run(`ALTER TABLE ledger_entries DISABLE TRIGGER USER`)
		run(`ALTER TABLE ledger_postings DISABLE TRIGGER USER`)
		run(`ALTER TABLE usage_windows DISABLE TRIGGER USER`)
		run(`INSERT INTO ledger_entries (id, org_id, currency, kind, reason, allocation_id, meter, window_start, window_end, made_by, period)
			SELECT gen_random_uuid(), a.org_id, 'USD', 'usage', 'use of an allocation', a.id, 'held', a.active_at + h * interval '1 hour',
				a.active_at + (h + 1) * interval '1 hour', 'system:metering', $1 FROM allocations a, generate_series(0, 23) h`, month(2))
		run(`INSERT INTO ledger_postings (entry_id, account, org_id, currency, amount_minor)
			SELECT e.id, p.account, e.org_id, 'USD', p.sign * 2520 FROM ledger_entries e, (VALUES ('tenant', -1), ('revenue', 1)) p (account, sign)`)
		run(`INSERT INTO usage_windows (allocation_id, meter, starts_at, ends_at, follows, amount_minor, entry_id)
			SELECT e.allocation_id, 'held', e.window_start, e.window_end, nullif(e.window_start, a.active_at), 2520, e.id
			FROM ledger_entries e JOIN allocations a ON a.id = e.allocation_id ORDER BY e.window_start`)
		run(`INSERT INTO ledger_balances (org_id, account, currency, balance_minor)
			SELECT org_id, account, 'USD', sum(amount_minor) FROM ledger_postings GROUP BY 1, 2`)
		for _, table := range []string{"ledger_entries", "ledger_postings", "usage_windows"} {
			run(`ALTER TABLE ` + table + ` ENABLE TRIGGER USER`)
		}
		return nil
	}); err != nil {
		tb.Fatal(err)
	}
	w.exec(tb, `ANALYZE ledger_entries, ledger_postings, usage_windows, usage_meters, allocations, allocation_terms`)
}
