package balance_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/money/balance"
)

// A tenant whose balance cannot be computed is told as a failure, and keeps no other one
// from being warned.
func TestABalanceThatCannotBeComputedHoldsUpNoOther(t *testing.T) {
	w := newWorld(t)
	w.limit(t, func(s *balance.Settings) { s.CreditLine = new(int64(2800 * 12)) })
	w.rent(t)
	sick := w.tenant(t, "sick")
	if _, err := w.balances.Set(t.Context(), sick, func(s *balance.Settings) error {
		s.Payment = balance.Prepaid
		return nil
	}, true); err != nil {
		t.Fatal(err)
	}
	// Two years at the highest price and number of units are more than an amount holds.
	if err := w.owner.InTx(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		for _, query := range []string{
			`INSERT INTO projects (id, org_id, slug, name) VALUES (gen_random_uuid(), $1, 'sick', 'Sick')`,
			`INSERT INTO allocations (id, org_id, project_id, capacity_shape, sku_id, sku_terms, price_minor, price_currency, gpus,
				region_code, node_id, hostname, access, event_id, requested_by, status, active_at)
				SELECT gen_random_uuid(), p.org_id, p.id, 'baremetal', n.sku_id, '{}', 0, 'USD', 8, 'eu', n.id, 'n', 'user', gen_random_uuid(), '',
					'active', timestamptz '2024-01-01Z' FROM projects p, nodes n WHERE p.org_id = $1`,
			`INSERT INTO allocation_terms (allocation_id, org_id, project_id, sku_id, basis, currency, price_minor, paid_share, units)
				SELECT id, org_id, project_id, sku_id, 'priced', 'USD', 1000000000000, 10000, 1024 FROM allocations WHERE org_id = $1`,
			`INSERT INTO usage_meters (allocation_id, org_id) SELECT id, org_id FROM allocations WHERE org_id = $1`,
		} {
			if _, err := tx.Exec(ctx, query, sick); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	w.now = w.now.Add(3 * time.Hour)
	if err := w.balances.Evaluate(t.Context()); err == nil || !strings.Contains(err.Error(), sick.String()) {
		t.Errorf("the failure names no tenant: %v", err)
	}
	if now, err := w.balances.Of(t.Context(), w.org); err != nil || now.Status != balance.Low {
		t.Errorf("%+v, %v", now, err)
	}
}
