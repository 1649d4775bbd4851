package pruning

import "gpuaas/controlplane/internal/engine/telemetry"

var (
	deleted = telemetry.NewCounter(telemetry.Metric{
		Name: "gpuaas.pruning.deleted", Labels: []string{"kind"}, Help: "Rows that were deleted because they were old.",
	})
	runs = telemetry.NewCounter(telemetry.Metric{
		Name: "gpuaas.pruning.runs", Labels: []string{"outcome"},
		Help: "Times that old rows were deleted; outcome is complete, partial (time was up) or failed.",
	})
)
