package job

import (
	"go.temporal.io/sdk/workflow"

	"gpuaas/controlplane/internal/engine/durable"
)

// Run is the workflow of a job: it carries the job out, turn by turn. Signals
// are those that its stages may await.
func (n WorkflowNames) Run(ctx workflow.Context, job string, signals ...string) error {
	return durable.RunJob(ctx, durable.Job{
		ID: job, Next: n.Next, Stage: n.Stage, Lost: n.Lost, Wake: n.Wake,
		Signals: signals,
	})
}
