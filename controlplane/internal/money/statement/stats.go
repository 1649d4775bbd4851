package statement

import (
	"context"
	"fmt"

	"gpuaas/controlplane/internal/engine/telemetry"
	"gpuaas/controlplane/internal/money/statement/internal/statementdb"
)

var (
	disagreements = telemetry.NewRows(telemetry.Metric{
		Name: "gpuaas.billing.disagreements",
		Help: "Allocations and tenants whose ledger is not what rating says, by the last comparison.",
	})
	checkAge = telemetry.NewRows(telemetry.Metric{
		Name: "gpuaas.billing.check_age", Seconds: true,
		Help: "How long ago the ledger was last compared with rated usage; 0: never yet.",
	})
	statementOverdue = telemetry.NewRows(telemetry.Metric{
		Name: "gpuaas.billing.statement_overdue", Seconds: true,
		Help: "How long the oldest month of a tenant is over that has no statement; 0: there is none.",
	})
)

// ObserveStats exports how the ledger compares, and what waits for a statement. It asks
// the database at each collection.
func ObserveStats(db statementdb.DBTX) error {
	_, err := telemetry.Observe(func(ctx context.Context, seen telemetry.Seen) error {
		q := statementdb.New(db)
		check, err := q.CheckStats(ctx)
		if err != nil {
			return fmt.Errorf("read the last comparison of ledgers: %w", err)
		}
		overdue, err := q.Overdue(ctx)
		if err != nil {
			return fmt.Errorf("look for months without a statement: %w", err)
		}
		seen(disagreements, float64(check.Disagreements))
		seen(checkAge, check.Age)
		seen(statementOverdue, overdue)
		return nil
	}, disagreements, checkAge, statementOverdue)
	return err
}
