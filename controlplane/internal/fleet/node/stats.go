package node

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/fleet/node/internal/nodedb"
)

// ObserveStats exports how many nodes are in each state. It reads them at each
// collection.
func ObserveStats(db *postgres.DB) error {
	meter := otel.Meter("gpuaas/node")
	nodes, err := meter.Int64ObservableGauge("gpuaas.nodes", metric.WithDescription("Nodes in a state."))
	if err != nil {
		return fmt.Errorf("make gauge of nodes: %w", err)
	}
	_, err = meter.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		rows, err := nodedb.New(db).CountByStatus(ctx)
		if err != nil {
			return err
		}
		count := map[string]int64{}
		for _, r := range rows {
			count[r.Status] = r.Nodes
		}
		for _, s := range Lifecycle.States { // an empty state is exported as zero, not left out
			if s.Name != Deleted {
				o.ObserveInt64(nodes, count[string(s.Name)], metric.WithAttributes(attribute.String("status", string(s.Name))))
			}
		}
		return nil
	}, nodes)
	if err != nil {
		return fmt.Errorf("observe nodes: %w", err)
	}
	return nil
}
