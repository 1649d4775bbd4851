package agenttask

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/fleet/agenttask/internal/agenttaskdb"
)

// ObserveStats exports how many tasks have not ended and how old the oldest is.
// It reads them at each collection.
func ObserveStats(db *postgres.DB) error {
	meter := otel.Meter("gpuaas/agenttask")
	tasks, err := meter.Int64ObservableGauge("gpuaas.node_tasks", metric.WithDescription("Tasks of nodes that have not ended."))
	if err != nil {
		return fmt.Errorf("make gauge of tasks: %w", err)
	}
	oldest, err := meter.Float64ObservableGauge("gpuaas.node_tasks.oldest", metric.WithUnit("s"), metric.WithDescription("Age of the oldest of them."))
	if err != nil {
		return fmt.Errorf("make gauge of tasks: %w", err)
	}
	_, err = meter.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		rows, err := agenttaskdb.New(db).Waiting(ctx)
		if err != nil {
			return err
		}
		waiting := map[string]agenttaskdb.WaitingRow{}
		for _, r := range rows {
			waiting[r.Status] = r
		}
		for _, s := range []Status{Queued, Dispatched} {
			of := metric.WithAttributes(attribute.String("status", string(s)))
			o.ObserveInt64(tasks, waiting[string(s)].Tasks, of)
			o.ObserveFloat64(oldest, waiting[string(s)].OldestSeconds, of)
		}
		return nil
	}, tasks, oldest)
	if err != nil {
		return fmt.Errorf("observe tasks: %w", err)
	}
	return nil
}
