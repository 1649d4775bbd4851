package rollout

import (
	"context"

	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"gpuaas/controlplane/internal/base/id"
)

// Activities are what the workflow of a rollout calls. Each may be repeated.
type Activities struct{ *Service }

// RegisterWorker adds the workflow and its activity to a worker.
func (s *Service) RegisterWorker(w worker.Registry) {
	w.RegisterWorkflowWithOptions(Run, workflow.RegisterOptions{Name: workflowType})
	w.RegisterActivity((&Activities{s}).DriveRollout)
}

// DriveRollout looks at a rollout once.
func (a *Activities) DriveRollout(ctx context.Context, of id.Rollout) (Turn, error) {
	done, wait, err := a.Drive(ctx, of)
	return Turn{Done: done, Wait: wait}, err
}
