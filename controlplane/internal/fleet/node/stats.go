package node

import (
	"context"
	"fmt"

	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/telemetry"
	"gpuaas/controlplane/internal/fleet/node/internal/nodedb"
)

var nodesIn = telemetry.NewRows(telemetry.Metric{
	Name: "gpuaas.nodes", Labels: []string{"status"},
	Help: "Nodes in a state.",
})

// ObserveStats exports how many nodes are in each state. It reads them at each
// collection.
func ObserveStats(db *postgres.DB) error {
	_, err := telemetry.Observe(func(ctx context.Context, seen telemetry.Seen) error {
		rows, err := nodedb.New(db).CountByStatus(ctx)
		if err != nil {
			return fmt.Errorf("count nodes: %w", err)
		}
		count := map[string]int64{}
		for _, r := range rows {
			count[r.Status] = r.Nodes
		}
		for _, s := range Lifecycle.States { // an empty state is exported as zero, not left out
			if s.Name != Deleted {
				seen(nodesIn, float64(count[string(s.Name)]), string(s.Name))
			}
		}
		return nil
	}, nodesIn)
	return err
}
