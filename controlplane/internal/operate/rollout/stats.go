package rollout

import (
	"context"
	"fmt"

	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/telemetry"
	"gpuaas/controlplane/internal/operate/rollout/internal/rolloutdb"
)

var (
	rollouts = telemetry.NewRows(telemetry.Metric{
		Name: "gpuaas.agent_rollouts", Labels: []string{"status"}, Help: "Rollouts of the agent that are not over.",
	})
	pausedSince = telemetry.NewRows(telemetry.Metric{
		Name: "gpuaas.agent_rollouts.paused_since", Seconds: true,
		Help: "How long the rollout of the agent waits for somebody that has waited longest; 0: none does.",
	})
	ends = telemetry.NewCounter(telemetry.Metric{
		Name: "gpuaas.agent_rollout.nodes", Labels: []string{"outcome"},
		Help: "Nodes of rollouts of the agent that came to an outcome; a node that failed and went back is both.",
	})
)

// ObserveStats exports how many rollouts are not over. It reads them at each collection.
func ObserveStats(db *postgres.DB) error {
	_, err := telemetry.Observe(func(ctx context.Context, seen telemetry.Seen) error {
		rows, err := rolloutdb.New(db).CountRollouts(ctx)
		if err != nil {
			return fmt.Errorf("count rollouts: %w", err)
		}
		count, waits := map[string]int64{}, 0.0
		for _, r := range rows {
			count[r.Status] = r.Rollouts
			if Status(r.Status) == Paused {
				waits = r.OldestSeconds
			}
		}
		for _, s := range statuses {
			if !s.Over() {
				seen(rollouts, float64(count[string(s)]), string(s))
			}
		}
		seen(pausedSince, waits)
		return nil
	}, rollouts, pausedSince)
	return err
}
