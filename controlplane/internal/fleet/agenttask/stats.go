package agenttask

import (
	"context"
	"fmt"

	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/telemetry"
	"gpuaas/controlplane/internal/fleet/agenttask/internal/agenttaskdb"
)

var (
	waitingTasks = telemetry.NewRows(telemetry.Metric{
		Name: "gpuaas.node_tasks", Labels: []string{"status"}, Help: "Tasks of nodes that have not ended.",
	})
	oldestTask = telemetry.NewRows(telemetry.Metric{
		Name: "gpuaas.node_tasks.oldest", Seconds: true, Labels: []string{"status"},
		Help: "Age of the oldest task that has not ended.",
	})
	endedTasks = telemetry.NewCounter(telemetry.Metric{
		Name: "gpuaas.node_tasks.ended", Labels: []string{"type", "outcome"},
		Help: "Tasks of nodes that ended; outcome is succeeded, failed, refused, expired or cancelled.",
	})
	taskDuration = telemetry.NewHistogram(telemetry.Metric{
		Name: "gpuaas.node_task.duration", Seconds: true, Labels: []string{"type", "outcome"},
		Help:    "Time from when a task was last handed to its node to its end, of tasks that were handed out.",
		Buckets: []float64{.05, .1, .25, .5, 1, 2.5, 5, 15, 60, 300, 900, 3600, 10800},
	})
)

// ObserveStats exports how many tasks have not ended and how old the oldest is.
// It reads them at each collection.
func ObserveStats(db *postgres.DB) error {
	_, err := telemetry.Observe(func(ctx context.Context, seen telemetry.Seen) error {
		rows, err := agenttaskdb.New(db).Waiting(ctx)
		if err != nil {
			return fmt.Errorf("count tasks: %w", err)
		}
		waiting := map[string]agenttaskdb.WaitingRow{}
		for _, r := range rows {
			waiting[r.Status] = r
		}
		for _, s := range []Status{Queued, Dispatched} {
			seen(waitingTasks, float64(waiting[string(s)].Tasks), string(s))
			seen(oldestTask, waiting[string(s)].OldestSeconds, string(s))
		}
		return nil
	}, waitingTasks, oldestTask)
	return err
}

// measure counts a task once its end has committed.
func measure(ctx context.Context, t Task, e ending) {
	outcome := string(t.Status)
	if e.refused {
		outcome = "refused"
	}
	postgres.AfterCommit(ctx, func() {
		endedTasks.Add(ctx, 1, t.Type, outcome)
		if t.DispatchedAt != nil && t.FinishedAt != nil {
			taskDuration.Record(ctx, max(t.FinishedAt.Sub(*t.DispatchedAt), 0).Seconds(), t.Type, outcome)
		}
	})
}
