package operation

import (
	"context"

	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/telemetry"
)

var (
	runsEnded = telemetry.NewCounter(telemetry.Metric{
		Name: "gpuaas.operations.ended", Labels: []string{"status", "owner"},
		Help: "Runs of operations that ended; status is succeeded, failed or canceled, owner is platform or project.",
	})
	targetsEnded = telemetry.NewCounter(telemetry.Metric{
		Name: "gpuaas.operation_targets.ended", Labels: []string{"status", "class"},
		Help: "Targets of operations that ended; class is that of the failure, or none.",
	})
	stepsEnded = telemetry.NewCounter(telemetry.Metric{
		Name: "gpuaas.operation_steps.ended", Labels: []string{"kind", "status"},
		Help: "Steps of operations that nodes reported, by kind and status.",
	})
	stepSeconds = telemetry.NewHistogram(telemetry.Metric{
		Name: "gpuaas.operation_step.duration", Labels: []string{"kind"}, Seconds: true,
		Help: "How long steps of operations took on their nodes.",
	})
)

// measure counts a run that ended.
func measure(ctx context.Context, o Operation) {
	side := "project"
	if o.Owner.platform() {
		side = "platform"
	}
	postgres.AfterCommit(ctx, func() { runsEnded.Add(ctx, 1, string(o.Status), side) })
}

// measureTarget counts a target that ended, and its steps.
func measureTarget(ctx context.Context, o Operation, s settlement) {
	if s.status == TargetRunning || s.status == TargetWaiting {
		return
	}
	class := s.trouble.Class
	if class == "" {
		class = "none"
	}
	postgres.AfterCommit(ctx, func() {
		targetsEnded.Add(ctx, 1, string(s.status), class)
		for _, step := range s.steps {
			if o.OnlyPlan {
				continue
			}
			stepsEnded.Add(ctx, 1, step.StepKind, step.Status)
			stepSeconds.Record(ctx, float64(step.DurationMs)/1000, step.StepKind)
		}
	})
}
