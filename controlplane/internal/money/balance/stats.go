package balance

import (
	"context"
	"fmt"

	"gpuaas/controlplane/internal/engine/telemetry"
	"gpuaas/controlplane/internal/money/balance/internal/balancedb"
)

var (
	evaluated = telemetry.NewHistogram(telemetry.Metric{
		Name: "gpuaas.billing.evaluation", Seconds: true,
		Help:    "How long it took to compute the balances of all tenants that are held to a limit.",
		Buckets: []float64{0.01, 0.05, 0.1, 0.5, 1, 2, 5, 10, 30, 60},
	})
	released = telemetry.NewCounter(telemetry.Metric{
		Name: "gpuaas.billing.releases", Help: "Allocations that were released because their tenant could not pay.",
	})
	balances = telemetry.NewRows(telemetry.Metric{
		Name: "gpuaas.billing.balances", Labels: []string{"status"},
		Help: "Tenants that have limits, by the state of their balance.",
	})
	uncharged = telemetry.NewRows(telemetry.Metric{
		Name: "gpuaas.billing.uncharged_since", Seconds: true,
		Help: "How long the oldest time of an allocation waits to be charged; more than twice billing.charge_every: charging stands still.",
	})
)

// ObserveStats exports how tenants stand. It asks the database at each collection.
func ObserveStats(db balancedb.DBTX) error {
	_, err := telemetry.Observe(func(ctx context.Context, seen telemetry.Seen) error {
		q := balancedb.New(db)
		rows, err := q.Count(ctx)
		if err != nil {
			return fmt.Errorf("count balances: %w", err)
		}
		for _, r := range rows {
			seen(balances, float64(r.Balances), r.Status)
		}
		oldest, err := q.Uncharged(ctx)
		if err != nil {
			return fmt.Errorf("look for what is not charged: %w", err)
		}
		seen(uncharged, oldest)
		return nil
	}, balances, uncharged)
	return err
}
