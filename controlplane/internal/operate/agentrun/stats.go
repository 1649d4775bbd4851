package agentrun

import (
	"context"
	"fmt"

	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/telemetry"
	"gpuaas/controlplane/internal/operate/agentrun/internal/agentrundb"
)

var (
	runs = telemetry.NewRows(telemetry.Metric{
		Name: "gpuaas.agent_runs", Labels: []string{"status"}, Help: "Runs on agents of single nodes that are not over.",
	})
	parkedSince = telemetry.NewRows(telemetry.Metric{
		Name: "gpuaas.agent_runs.parked_since", Seconds: true,
		Help: "How long the run on an agent waits for somebody that has been parked longest; 0: none is.",
	})
)

// ObserveStats exports how many runs are not over. It reads them at each collection.
func ObserveStats(db *postgres.DB) error {
	_, err := telemetry.Observe(func(ctx context.Context, seen telemetry.Seen) error {
		rows, err := agentrundb.New(db).CountRuns(ctx)
		if err != nil {
			return fmt.Errorf("count agent runs: %w", err)
		}
		count, waits := map[string]int64{}, 0.0
		for _, r := range rows {
			count[r.Status] = r.Runs
			if Status(r.Status) == Parked {
				waits = r.OldestSeconds
			}
		}
		for _, name := range Lifecycle.Lasting() {
			seen(runs, float64(count[string(name)]), string(name))
		}
		seen(parkedSince, waits)
		return nil
	}, runs, parkedSince)
	return err
}
