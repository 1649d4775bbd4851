package decommission

import (
	"go.temporal.io/sdk/workflow"

	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/job"
)

// workflowNames are the names recorded in the histories of decommissions.
var workflowNames = job.WorkflowNames{
	Type: "NodeDecommissionWorkflow", Next: "NextDecommissionTurn", Lost: "LoseDecommissionStage",
	Wake:  "WakeDecommission",
	Stage: func(stage string) string { return "decommission." + stage },
}

// Workflow carries out a decommission, turn by turn.
func Workflow(ctx workflow.Context, in job.Input) error {
	return workflowNames.Run(ctx, in.ID, node.EnrolledSignal)
}
