package onboarding

import (
	"context"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"gpuaas/controlplane/internal/base/id"
)

// RegisterWorker adds the workflows and their activities to a worker.
func (s *Service) RegisterWorker(w worker.Registry) {
	s.jobs.RegisterWorker(w, Workflow)
	w.RegisterWorkflowWithOptions(BatchWorkflow, workflow.RegisterOptions{Name: batchWorkflowType})
	w.RegisterActivityWithOptions(s.admit, activity.RegisterOptions{Name: admitActivity})
}

func (s *Service) admit(ctx context.Context, batch id.OnboardingBatch) (Admission, error) {
	return s.admitBatch(ctx, batch)
}
