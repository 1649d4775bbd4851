package job

import (
	"context"

	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/telemetry"
)

// Stages and failure classes come from the tables in the code, which bounds the
// number of series.
var (
	stageDuration = telemetry.NewHistogram(telemetry.Metric{
		Name: "gpuaas.job.stage.duration", Seconds: true, Labels: []string{"family", "stage", "outcome"},
		Help:    "Time from the beginning of a stage to the end of an attempt at it; outcome is succeeded, skipped, compensated, retried or parked.",
		Buckets: []float64{.1, .5, 1, 5, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200},
	})
	jobMoves = telemetry.NewCounter(telemetry.Metric{
		Name: "gpuaas.job.moves", Labels: []string{"family", "status", "stage", "failure_class"},
		Help: "Jobs that came to another status, with the stage they were at and, when parked, the class of the failure.",
	})
)

// measure counts an attempt once its end has committed. One that only waits has
// not ended.
func (r *Runner[R, W]) measure(ctx context.Context, a attempt[R, W], v verdict, after Job) {
	countMove(ctx, r.family.Noun, a.before, after)
	if v.why == nil && a.result.Await != nil {
		return
	}
	outcome := string(v.told.Status)
	switch {
	case v.parks:
		outcome = "parked"
	case v.why != nil:
		outcome = "retried"
	}
	took := max(r.now().Sub(a.work.Common().Since), 0).Seconds()
	postgres.AfterCommit(ctx, func() { stageDuration.Record(ctx, took, r.family.Noun, a.call.Stage, outcome) })
}

// countMove counts a job that came to another status, once that has committed.
func countMove(ctx context.Context, family string, before, after Job) {
	if after.Status == before.Status {
		return
	}
	postgres.AfterCommit(ctx, func() {
		jobMoves.Add(ctx, 1, family, string(after.Status), after.Stage, string(after.FailureClass))
	})
}
